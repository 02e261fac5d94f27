# SPDX-License-Identifier: Apache-2.0
"""LiteRT, where it is installed, as a second opinion on what a model computes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from circlekit.equivalence.array_comparison import worst_difference
from circlekit.errors import EquivalenceError, UnsupportedError
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.passes.legal.legalize import legalize

PACKAGE = "ai_edge_litert"

TOLERANCE = 1e-5
"""Largest difference of float results from LiteRT's reference kernels, as a part of the largest magnitude."""

UNKNOWN = ("Didn't find op", "unresolved custom op", "Unresolved custom op", "Unsupported data type")
"""What LiteRT says of operators, versions or types that it does not have."""


def is_available() -> bool:
    return find_spec(PACKAGE) is not None


def tflite_of(model: Model) -> bytes:
    """The model as a TFLite file; UnsupportedError where that format lacks something."""
    return to_bytes(legalize(model, "tflite"), "tflite")


def run_litert(data: bytes, inputs: Sequence[Array]) -> list[Array]:
    """Outputs of the first graph by LiteRT's reference kernels.

    UnsupportedError where it lacks an operator; EquivalenceError where it does not take the model.
    """
    try:
        interpreter = _interpreter(data)
        details = interpreter.get_input_details()
        for detail, array in zip(details, inputs, strict=True):
            if tuple(detail["shape"]) != array.shape:
                interpreter.resize_tensor_input(detail["index"], array.shape)
        interpreter.allocate_tensors()
        for detail, array in zip(details, inputs, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return [_output(interpreter, detail) for detail in interpreter.get_output_details()]
    except (ValueError, RuntimeError) as error:
        sentence = " ".join(str(error).split()).partition(". See instructions:")[0]
        if any(word in sentence for word in UNKNOWN):
            raise UnsupportedError(f"LiteRT lacks something: {sentence}") from error
        raise EquivalenceError(f"LiteRT does not take the model: {sentence}") from error


def _interpreter(data: bytes) -> Any:
    """With the reference kernels; with all it has where their list stops at an older version."""
    package = import_module(f"{PACKAGE}.interpreter")
    kinds = package.OpResolverType
    try:
        return package.Interpreter(
            model_content=data, experimental_op_resolver_type=kinds.BUILTIN_REF, num_threads=1
        )
    except ValueError as error:
        if "Didn't find op" not in str(error):
            raise
    return package.Interpreter(
        model_content=data,
        experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        num_threads=1,
    )


def _output(interpreter: Any, detail: dict[str, Any]) -> Array:
    if 0 in detail["shape"]:  # LiteRT refuses to hand it out
        return np.zeros(tuple(detail["shape"]), detail["dtype"])
    array: Array = interpreter.get_tensor(detail["index"])
    return array


def differences(
    names: Sequence[str], ours: Sequence[Array], theirs: Sequence[Array], tolerance: float | None = None
) -> list[str]:
    """A sentence for each output in which the two differ; ``tolerance``: of the largest magnitude."""
    found = []
    for name, a, b in zip(names, ours, theirs, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            found.append(f"%{name} is {a.dtype}{list(a.shape)}, by LiteRT {b.dtype}{list(b.shape)}")
            continue
        if is_text(a):
            if a.tolist() != b.tolist():
                found.append(f"%{name}, LiteRT's and ours: {b.tolist()} and {a.tolist()}")
            continue
        worst = worst_difference(b, a, _allowed(b, TOLERANCE if tolerance is None else tolerance))
        if worst is not None and not worst.equal:
            found.append(f"%{name}, LiteRT's and ours: {worst}")
    return found


def is_text(array: Array) -> bool:
    """Whether the elements are no numbers."""
    return array.dtype.kind in "OSU"


def _allowed(reference: Array, tolerance: float) -> float:
    if reference.dtype.kind != "f":
        return 0.0
    finite = np.abs(reference[np.isfinite(reference)])
    return tolerance * float(finite.max(initial=0.0))
