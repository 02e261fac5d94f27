# SPDX-License-Identifier: Apache-2.0
"""onert ignores keep_num_dims of FULLY_CONNECTED: it gives the result [6,4] instead of [2,3,4]."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.targets.ignored_attributes import tolerated
from circlekit.targets.target import find_target

LAYER = "%a = FullyConnected(%x, %w, none) {keep_num_dims: true}"

HARMLESS = {
    "a reshape": f"{LAYER} %y = Reshape(%a, [24])",
    "a function and a reshape": f"{LAYER} %e = Exp(%a) %y = Reshape(%e, [24])",
    "a sum with a number": f"{LAYER} %e = Add(%a, 2.0) %y = Reshape(%e, [24])",
    "a sum with a vector": f"{LAYER} %e = Add(%a, [1.0, 2.0, 3.0, 4.0]) %y = Reshape(%e, [24])",
    "another layer": f"{LAYER} %v = const f32[5,4] uniform(0, 1) %y = FullyConnected(%a, %v, none)",
    "two layers": f"""{LAYER} %v = const f32[5,4] uniform(0, 1)
        %b = FullyConnected(%a, %v, none) {{keep_num_dims: true}} %y = Reshape(%b, [30])""",
}
WRONG = {
    "an output": LAYER.replace("%a", "%y"),
    "a function before an output": f"{LAYER} %y = Exp(%a)",
    "a transposition": f"{LAYER} %t = Transpose(%a, [1,0,2]) %y = Reshape(%t, [24])",
    # axis 1 of [6,4] has 4 elements, which are those of axis 2 of [2,3,4]
    "a reversal along an axis": f"{LAYER} %r = ReverseV2(%a, [1]) %y = Reshape(%r, [24])",
    "a sum along an axis": f"{LAYER} %s = Sum(%a, [1]) %y = Reshape(%s, [8])",
    "a sum that repeats a matrix": f"""{LAYER} %m = const f32[3,4] uniform(0, 1)
        %e = Add(%a, %m) %y = Reshape(%e, [24])""",
    "a sum that repeats rows": f"""{LAYER} %m = const f32[2,1,4] uniform(0, 1)
        %e = Add(%a, %m) %y = Reshape(%e, [24])""",
    "a custom operator": f"""{LAYER} %c = Opaque(%a) {{code: "CUSTOM", custom_code: "Erf"}} : f32[2,3,4]
        %y = Reshape(%c, [24])""",
    "several results": f"""{LAYER} %p, %q = Split(0, %a) {{num_splits: 2}}
        %y = Concatenation(%p, %q) {{axis: 0}}""",
}


@pytest.mark.parametrize("body", [*HARMLESS.values(), *WRONG.values()], ids=[*HARMLESS, *WRONG])
def test_a_layer_runs_if_no_output_depends_on_the_shape_of_its_result(body: str) -> None:
    model = parse_model(
        f"model circle\ngraph main(%x: f32[2,3,8]) -> %y {{\n%w = const f32[4,8] uniform(0, 1)\n{body}\n}}"
    )
    target = find_target("onert")
    refused = {op for op in model.main if target.refusal(op) is not None}
    assert refused
    assert tolerated(model.main, target) == (refused if body in HARMLESS.values() else set())


def test_only_the_layers_that_cause_a_wrong_result_are_refused() -> None:
    model = parse_model(
        f"""model circle
        graph main(%x: f32[2,3,8]) -> %y, %z {{
          %w = const f32[4,8] uniform(0, 1)
          {LAYER}
          %y = Reshape(%a, [24])
          %b = FullyConnected(%x, %w, none) {{keep_num_dims: true}}
          %z = Neg(%b)
        }}"""
    )
    (op,) = tolerated(model.main, find_target("onert"))
    assert op.output.name == "a"
