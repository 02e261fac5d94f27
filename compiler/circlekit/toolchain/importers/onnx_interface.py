# SPDX-License-Identifier: Apache-2.0
"""Restore the interface of an ONNX model in the model that onnx2tf made from it, and check the outputs.

The converter onnx2tf may change the order and names of inputs and outputs, and the order of the axes of
outputs.  So outputs are found by their values: the script ``onnx_model.py`` has run the ONNX model and has
recorded the arrays of its inputs and outputs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from circlekit.equivalence.array_comparison import largest_magnitude, worst_difference
from circlekit.errors import EquivalenceError, ModelError, counted
from circlekit.interp.interpreter import Interpreter, run
from circlekit.ir.dtypes import i32
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import Transpose

TOLERANCE = 1e-3
"""The allowed difference of outputs, divided by the largest magnitude of the ONNX model's output.

It is above 0 because kernels sum in different orders.  It is also the allowed relative difference of the
statistics of arrays (``_fingerprint``).
"""

MAX_PERMUTED_RANK = 6
"""For outputs up to this rank, all permutations of axes are tried; for larger ranks, only unchanged axes."""


def restore_interface(model: Model, record: Mapping[str, Array]) -> None:
    """Give the inputs and outputs of ``model`` the order and names of the ONNX model, in place.

    ``record``: the arrays that the script ``onnx_model.py`` writes about the ONNX model:

    - ``inputs``, ``outputs``: the names;
    - ``in0``, ``in1``, ...: an array for each input;
    - ``out0``, ``out1``, ...: the outputs for these inputs;
    - ``nodes``, ``operands``, ``results``, ``fingerprints``: see ``name_values``.  They may be missing.

    ``model`` is run on the recorded inputs.  The output with the values ``outn``, up to TOLERANCE, becomes
    output n; NaN equals NaN, and an infinity equals itself.  A TRANSPOSE is appended to it in two cases:

    - its axes are permuted;
    - it is also an input or an earlier output, so the second name needs a copy.

    Signatures are removed.
    Raise EquivalenceError for an ONNX output whose values no output has, ModelError if the inputs do not
    correspond, and the errors of ``run``.
    """
    names = {side: [str(name) for name in record[side]] for side in ("inputs", "outputs")}
    count, listed = len(model.main.inputs), ", ".join(names["inputs"])
    if count != len(names["inputs"]):
        expected = f"expected {counted(len(names['inputs']), 'input')} as in the ONNX model ({listed})"
        raise ModelError(f"{expected}, got {count}")
    inputs = [_input(model, name, record[f"in{n}"], n) for n, name in enumerate(names["inputs"])]
    if count != len({*inputs}):
        raise ModelError(f"expected a different input for each of {listed}, got one input for two of them")
    model.main.inputs = inputs
    arrays = run(model, [record[f"in{n}"] for n in range(len(inputs))])
    found = list(zip(model.main.outputs, arrays, strict=True))
    outputs: list[Value] = []
    for n, name in enumerate(names["outputs"]):
        found.sort(key=lambda pair: pair[0] in outputs)  # of equal outputs, first those not yet taken
        value = _output(model, name, record[f"out{n}"], found)
        if value in inputs or value in outputs:  # a value has one name only
            value = _transposed(model, value, range(record[f"out{n}"].ndim))
        outputs.append(value)
    model.main.outputs = outputs
    model.signatures = []  # they have the names that onnx2tf gave to inputs and outputs
    if "nodes" in record:
        name_values(model, record, [record[f"in{n}"] for n in range(len(inputs))])
    taken = {*inputs, *outputs}
    others = {value.name: value for value in model.main.values() if value not in taken}
    for value, name in zip((*inputs, *outputs), (*names["inputs"], *names["outputs"]), strict=True):
        if name in others:
            others[name].name = model.main.unique_name(name)
        value.name = name


def name_values(model: Model, record: Mapping[str, Array], inputs: Sequence[Array]) -> None:
    """Give the results of operators the names of the ONNX nodes with the same values, as onnx2circle does.

    If the converter fused a node with its reader, the result gets both names: ``conv;relu``.
    ``record``: arrays with an element for each ONNX node that has a single float32 result: ``nodes``, the
    name of the node; ``operands`` and ``results``, the names of its first operand and of its result;
    ``fingerprints``, statistics of the elements of the result.
    ``inputs``: the arrays of the inputs in ``record``, in order.
    """
    nodes, fingerprints = [str(name) for name in record["nodes"]], record["fingerprints"]
    # by the name of a first operand, the index of the last node that reads it
    readers = {str(operand): index for index, operand in enumerate(record["operands"])}
    found: dict[int, Value] = {}  # by index of the node

    def match(op: Op, arrays: Sequence[Array]) -> None:
        """Enter the result of ``op`` in ``found`` if its statistics are those of a node not yet found."""
        if (
            len(arrays) != 1
            or arrays[0].dtype != np.float32
            or not arrays[0].size
            or op.graph is not model.main
        ):
            return
        own = _fingerprint(arrays[0])
        near = np.isclose(fingerprints, own, rtol=TOLERANCE, atol=1e-6, equal_nan=True).all(axis=1)
        index = next((int(i) for i in np.flatnonzero(near) if int(i) not in found), None)
        if index is not None:
            found[index] = op.results[0]

    Interpreter(model).run(list(inputs), observe=match)
    labels = list(nodes)
    for index, result in enumerate(record["results"]):  # nodes come before their readers
        reader = readers.get(str(result))
        if index not in found and reader is not None:
            labels[reader] = f"{labels[index]};{nodes[reader]}"
    taken = {value.name for value in model.main.values()}
    for index, value in found.items():
        if labels[index] not in taken:
            value.name = labels[index]
            taken.add(labels[index])


def _fingerprint(array: Array) -> list[float]:
    """Return the numbers by which an array is recognized: those of ``nodes_of`` in ``onnx_model.py``."""
    mean_square = np.square(array, dtype=np.float64).mean()
    return [array.size, array.mean(dtype=np.float64), mean_square, array.min(), array.max()]


def _input(model: Model, name: str, array: Array, index: int) -> Value:
    """Return the input of ``model`` for the input ``name`` of the ONNX model.

    The first of these that exists counts:

    - the input that has this name, in the graph or in a signature;
    - the only input with the shape of ``array``;
    - the input number ``index``.
    """
    given = {key: value for signature in model.signatures for key, value in signature.inputs.items()}
    given.update({value.name: value for value in model.main.inputs})
    for key, value in given.items():
        if _plain(key) == _plain(name):
            return value
    fitting = [v for v in model.main.inputs if v.shape == array.shape]
    if len(fitting) == 1:
        return fitting[0]
    return model.main.inputs[index]


def _plain(name: str) -> str:
    """Return ``name`` as converters change it: lower case, special characters as ``_``, none at the ends."""
    return re.sub(r"\W", "_", name).strip("_").lower()


def _output(model: Model, name: str, expected: Array, found: list[tuple[Value, Array]]) -> Value:
    """Return the output with the values ``expected``; append a TRANSPOSE to it if its axes are permuted.

    ``found``: (output of ``model``, its array).  ``name``: the name of the ONNX output, for the message.
    Raise EquivalenceError if no output has the values.
    """
    limit = TOLERANCE * max(largest_magnitude(expected), 1e-6)  # above 0 for an output of zeros
    nearest: float | None = None
    # all outputs are tried with unchanged axes before any with permuted axes
    for axes, (value, array) in itertools.product(_permutations(expected.ndim), found):
        permuted = np.transpose(array, axes) if array.ndim == len(axes) else array
        if permuted.shape != expected.shape:
            continue
        worst = worst_difference(expected.astype(np.float64), permuted.astype(np.float64), limit)
        difference = 0.0 if worst is None else worst.absolute
        nearest = difference if nearest is None else min(nearest, difference)
        if difference <= limit:
            return value if axes == tuple(range(len(axes))) else _transposed(model, value, axes)
    reason = f"no output has its shape, {list(expected.shape)}"
    if nearest is not None:
        reason = f"the smallest difference is {nearest:g}, {limit:g} is allowed"
    raise EquivalenceError(
        f"onnx2tf made a model with other values than the ONNX model at output {name}: {reason}"
    )


def _permutations(rank: int) -> Iterator[tuple[int, ...]]:
    """Return an iterator over the permutations of axes; the first one changes nothing."""
    return itertools.permutations(range(rank)) if rank <= MAX_PERMUTED_RANK else iter([tuple(range(rank))])


def _transposed(model: Model, value: Value, axes: Sequence[int]) -> Value:
    """Append a TRANSPOSE of ``value`` with the permutation ``axes`` to the main graph; return its result."""
    graph = model.main
    order = Value(graph.unique_name("permutation"), i32, (len(axes),), np.array(axes, np.int32))
    result = graph.append(Transpose(value, order)).output
    result.name = graph.unique_name(f"{value.name}_transposed")
    return result
