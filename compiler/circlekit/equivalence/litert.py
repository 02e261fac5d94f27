# SPDX-License-Identifier: Apache-2.0
"""Run a TFLite model with LiteRT, an independent runtime, and compare its outputs with ours.

LiteRT (package ``ai_edge_litert``) is an optional dependency: call ``is_available`` before running a model.
A model that may abort LiteRT, such as a damaged or random model, must run in a forked process: use
``run_litert_forked``.

In all functions, ``data`` are the bytes of a TFLite file, and ``kernels`` says which of LiteRT's two kernel
sets runs the model: the reference kernels or the optimized kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from circlekit.equivalence.array_comparison import allowed_difference, compare_arrays
from circlekit.equivalence.litert_undefined import undefined
from circlekit.equivalence.sandbox import ProcessLost, run_forked
from circlekit.errors import EquivalenceError, UnsupportedError, counted
from circlekit.interp.interpreter import select_kernels
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.passes.engine.legalize import legalize

TOLERANCE = 1e-5
"""The largest tolerated difference of a float or complex output, divided by the largest magnitude in it."""

TIMEOUT_SECONDS = 60.0
"""The time limit of one model in a forked process."""

# parts of LiteRT's error messages
_LACKS_KERNEL = "Didn't find op"
_UNSUPPORTED = (_LACKS_KERNEL, "unresolved custom op", "Unresolved custom op", "Unsupported data type")


def is_available() -> bool:
    """Return whether the package of LiteRT is installed."""
    return find_spec("ai_edge_litert") is not None


def why_not_compared(wanted: bool) -> str:
    """Return why values are not compared with LiteRT; "" if they are compared.

    ``wanted``: whether the user wants the comparison.
    """
    if not wanted:
        return "LiteRT is not asked, as requested"
    return "" if is_available() else "LiteRT is not installed"


def tflite_of(model: Model) -> bytes:
    """Return the bytes of ``model``, legalized, as a TFLite file.

    Raise the errors of ``to_bytes``, such as UnsupportedError if TFLite cannot express the model.
    """
    return to_bytes(legalize(model, "tflite"), "tflite")


def run_model(model: Model, inputs: Sequence[Array]) -> list[Array]:
    """Return the outputs of ``model`` in LiteRT, run with the kernel set that our interpreter chooses for it.

    Raise UnsupportedError if ``undefined`` finds undefined results, and the errors of ``undefined``,
    ``tflite_of`` and ``run_litert``.
    """
    reason = undefined(model)
    if reason is not None:
        raise UnsupportedError(f"LiteRT has undefined results for the model: {reason}")
    return run_litert(tflite_of(model), inputs, select_kernels(model))


def make_interpreter(data: bytes, kernels: Kernels = Kernels.REFERENCE) -> Any:
    """Return a LiteRT interpreter of ``data``, with one thread and without delegates.

    If there is no reference kernel for an operator or its version, the whole model runs with optimized
    kernels.  Raise ValueError if LiteRT rejects the file.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # optional dependency

    def interpreter(resolver: OpResolverType) -> Any:
        return Interpreter(model_content=data, experimental_op_resolver_type=resolver, num_threads=1)

    if kernels is Kernels.REFERENCE:
        try:
            return interpreter(OpResolverType.BUILTIN_REF)
        except ValueError as error:
            if _LACKS_KERNEL not in str(error):
                raise
    return interpreter(OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def run_litert(data: bytes, inputs: Sequence[Array], kernels: Kernels = Kernels.REFERENCE) -> list[Array]:
    """Run the first graph of the file once and return its outputs.

    Raise UnsupportedError if LiteRT does not have an operator or a dtype, EquivalenceError if it rejects the
    model or its inputs.
    """
    return run_steps(data, [inputs], kernels)[0]


def run_steps(
    data: bytes, steps: Sequence[Sequence[Array]], kernels: Kernels = Kernels.REFERENCE
) -> list[list[Array]]:
    """Run the first graph on each set of inputs in ``steps``, in order; return the outputs of each run.

    Variables keep their state until the shape of an input changes.  Raise the errors of ``run_litert``.
    """
    try:
        return run_interpreter(make_interpreter(data, kernels), steps)
    except (ValueError, RuntimeError) as error:
        message = " ".join(str(error).split())
        sentence = message.partition(". See instructions:")[0]  # the rest refers to LiteRT's documentation
        if any(word in sentence for word in _UNSUPPORTED):
            raise UnsupportedError(f"LiteRT does not support the model: {sentence}") from error
        raise EquivalenceError(f"LiteRT does not accept the model: {sentence}") from error


def run_interpreter(interpreter: Any, steps: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Do the same as ``run_steps``, but raise the ValueError or RuntimeError of LiteRT.

    ``interpreter``: a LiteRT interpreter that has not run yet.
    """
    outputs = []
    # an allocation resets the variables, so after the first run, only a changed shape makes one necessary
    needs_allocation = True
    for inputs in steps:
        details = interpreter.get_input_details()
        if len(inputs) != len(details):
            raise ValueError(f"expected {counted(len(details), 'input')}, got {len(inputs)}")
        for detail, array in zip(details, inputs, strict=True):
            if tuple(detail["shape"]) != array.shape:
                interpreter.resize_tensor_input(detail["index"], array.shape)
                needs_allocation = True
        if needs_allocation:
            interpreter.allocate_tensors()
            needs_allocation = False
        for detail, array in zip(details, inputs, strict=True):
            interpreter.set_tensor(detail["index"], settable(array))
        interpreter.invoke()
        outputs.append(
            [
                np.array(interpreter.get_tensor(detail["index"]))
                if 0 not in detail["shape"]  # LiteRT does not return empty tensors
                else np.zeros(tuple(detail["shape"]), detail["dtype"])
                for detail in interpreter.get_output_details()
            ]
        )
    return outputs


def settable(array: Array) -> Array:
    """Return ``array`` as the method ``set_tensor`` of a LiteRT interpreter takes it.

    Of a scalar that is a bytes object, LiteRT would read the address in place of the text.
    """
    if array.dtype == object and array.ndim == 0:
        text: bytes = array.item()
        scalar: Array = np.ndarray((), np.dtype(f"S{len(text)}"), text)
        return scalar
    # ``ascontiguousarray`` gives a scalar the shape [1]; ``reshape`` restores it
    return np.ascontiguousarray(array).reshape(array.shape)


# -- comparison --------------------------------------------------------------------------------


def differences(
    names: Sequence[str],
    ours: Sequence[Array],
    theirs: Sequence[Array],
    tolerance: float | None = None,
    noise: Sequence[float] = (),
) -> list[str]:
    """Return a sentence for each output that differs.

    ``names``, ``ours``, ``theirs``: for each output its name, its array in circlekit, its array in LiteRT.
    ``tolerance``: the tolerated difference of a float or complex output, divided by the largest magnitude in
    LiteRT's array; by default TOLERANCE.  Other outputs must be equal.
    ``noise``: for each output, an absolute difference that is tolerated in any case; () for none.
    """
    fraction = TOLERANCE if tolerance is None else tolerance
    sentences = []
    noise = noise or [0.0] * len(names)
    for name, actual, expected, excused in zip(names, ours, theirs, noise, strict=True):
        if is_text(actual) and is_text(expected):  # the two may store strings in different numpy dtypes
            actual, expected = actual.astype(object), expected.astype(object)
        outcome = compare_arrays(name, expected, actual, max(allowed_difference(expected, fraction), excused))
        if not outcome.equal:
            sentences.append(f"%{name}, LiteRT's and ours: {outcome.reason or outcome.worst}")
    return sentences


def is_text(array: Array) -> bool:
    """Return whether the elements are strings."""
    return array.dtype.kind in "OSU"


# -- in a forked process ------------------------------------------------------------------------


def run_litert_forked(
    data: bytes,
    steps: Sequence[Sequence[Array]],
    kernels: Kernels = Kernels.REFERENCE,
    seconds: float = TIMEOUT_SECONDS,
) -> list[list[Array]]:
    """Do the same as ``run_steps`` in a forked process.

    Raise EquivalenceError also if LiteRT crashes, or takes longer than ``seconds``.
    """
    import ai_edge_litert.interpreter  # noqa: F401  # optional; imported once for all forked processes

    try:
        (outputs,) = run_forked(lambda: [run_steps(data, steps, kernels)], seconds)
    except ProcessLost as lost:
        if lost.code is None:
            raise EquivalenceError(f"LiteRT takes longer than {seconds} s") from None
        raise EquivalenceError(f"LiteRT crashes on the model ({lost})") from None
    return outputs


def accepted_files(files: Sequence[bytes]) -> list[bool]:
    """Return for each file whether LiteRT's flatbuffer verifier accepts it.

    A file on which LiteRT crashes or takes too long counts as accepted: the verifier runs first, so the fault
    is in a later step.  A new process then continues with the next file.
    """
    import ai_edge_litert.interpreter  # noqa: F401  # optional; imported once for all forked processes

    accepted: list[bool] = []
    while len(accepted) < len(files):
        rest = files[len(accepted) :]
        try:
            for is_accepted in run_forked(lambda: map(_is_accepted, rest), TIMEOUT_SECONDS):  # noqa: B023
                accepted.append(is_accepted)  # noqa: PERF402
        except ProcessLost:
            accepted.append(True)  # the crash came after the verifier
    return accepted


def _is_accepted(data: bytes) -> bool:
    """Return whether LiteRT's flatbuffer verifier accepts ``data``; other errors of LiteRT do not count."""
    try:
        make_interpreter(data, Kernels.OPTIMIZED)
    except (ValueError, RuntimeError) as error:
        return "not a valid Flatbuffer" not in str(error)
    return True
