# SPDX-License-Identifier: Apache-2.0
"""The text form of models (docs/guide/text-form.md): a model printed in full is parsed to an equal model.

``print_model(shorten=True)`` leaves out most elements of constants; such a text is only for reading.
``parse_model`` knows only the operators that have been declared: import ``circlekit.ops`` first.

    model circle {version: 0, description: "a demo"}
    metadata "made by" "hand"
    signature "serving_default" @main (image: %x) -> (result: %y)

    graph main(%x: f32[1,2,2,1]) -> %y {
      %w = const f32[3,3,3,1] gaussian(0, 0.1)
      %1 = TransposeConv([1,4,4,3], %w, %x) {padding: VALID}  : f32[1,4,4,3]
      %2 = Mul(%1, [2.0, 1.5, 0.5])
      %y = Add(%2, [-2.0, 0.1, 0.0]) {act: RELU6}
    }

The modules ``syntax`` and ``document`` give the grammar.  The data of a constant are one of:

- a number, true or false, or a list of these, nested or flat;
- a filler, such as ``gaussian(0, 0.1)``, which computes the elements (see ``fillers``);
- ``base64("...")``, or ``raw("...")`` for a packed, sparse or compressed constant (its bytes in base64);
- ``file("net.circle", offset, size)``: ``print_model`` writes it if its argument ``locate`` finds the data in
  a file; ``parse_model`` reads it by its argument ``resolve``.

Examples of types: ``i8[1,?,3] quant(scale: 0.5, zero_point: -3)``, ``f32[*]`` for an unknown rank,
``f32[2] variable`` for a variable.
"""

from __future__ import annotations

from circlekit.ir.text.constant_data import Resolve
from circlekit.ir.text.parser import parse_model
from circlekit.ir.text.printer import Locate, print_graph, print_model, print_op

__all__ = ["Locate", "Resolve", "parse_model", "print_graph", "print_model", "print_op"]
