# SPDX-License-Identifier: Apache-2.0
"""LiteRT as an independent runtime: run a TFLite model with its kernels and compare the outputs with ours.

LiteRT (package ``ai_edge_litert``) is an optional dependency: ask ``is_available`` first.  All functions take
the bytes of a TFLite file.  ``LiteRTProcess`` runs models that may abort LiteRT, such as damaged or random
ones, in a process of its own.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import numpy as np

from circlekit.equivalence.model_comparison import largest_magnitude, worst_difference
from circlekit.errors import EquivalenceError, UnsupportedError
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.passes.engine.legalize import legalize

TOLERANCE = 1e-5
"""Largest difference of float results from LiteRT's reference kernels, as a part of the largest magnitude."""

TIMEOUT_SECONDS = 60.0
"""How long ``LiteRTProcess`` waits for one model."""

_LACKS_KERNEL = "Didn't find op"
_UNSUPPORTED = (_LACKS_KERNEL, "unresolved custom op", "Unresolved custom op", "Unsupported data type")


def is_available() -> bool:
    """Return whether the package of LiteRT is installed."""
    return find_spec("ai_edge_litert") is not None


def tflite_of(model: Model) -> bytes:
    """Return ``model`` as a TFLite file; UnsupportedError where the format cannot express it."""
    return to_bytes(legalize(model, "tflite"), "tflite")


def make_interpreter(data: bytes, kernels: Kernels = Kernels.REFERENCE) -> Any:
    """Return LiteRT's interpreter of a file, with one thread, without delegates; ValueError where it refuses.

    The optimized kernels are used where the reference set lacks an operator or a version of it.
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
    """Run the first graph once and return its outputs.

    UnsupportedError where LiteRT lacks an operator or dtype, EquivalenceError where it refuses the model or
    its inputs.
    """
    return run_steps(data, [inputs], kernels)[0]


def run_steps(
    data: bytes, steps: Sequence[Sequence[Array]], kernels: Kernels = Kernels.REFERENCE
) -> list[list[Array]]:
    """Run the first graph once for each set of inputs, keeping variables; errors as ``run_litert``."""
    try:
        return run_interpreter(make_interpreter(data, kernels), steps)
    except (ValueError, RuntimeError) as error:
        sentence = " ".join(str(error).split()).partition(". See instructions:")[0]
        if any(word in sentence for word in _UNSUPPORTED):
            raise UnsupportedError(f"LiteRT does not support the model: {sentence}") from error
        raise EquivalenceError(f"LiteRT does not accept the model: {sentence}") from error


def run_interpreter(interpreter: Any, steps: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Run a new interpreter of LiteRT once for each set of inputs; raises its ValueError or RuntimeError."""
    outputs = []
    needs_allocation = True  # only if the shapes changed: it resets the variables
    for inputs in steps:
        details = interpreter.get_input_details()
        for detail, array in zip(details, inputs, strict=True):
            if tuple(detail["shape"]) != array.shape:
                interpreter.resize_tensor_input(detail["index"], array.shape)
                needs_allocation = True
        if needs_allocation:
            interpreter.allocate_tensors()
            needs_allocation = False
        for detail, array in zip(details, inputs, strict=True):
            interpreter.set_tensor(detail["index"], np.ascontiguousarray(array).reshape(array.shape))
        interpreter.invoke()
        outputs.append([_output(interpreter, detail) for detail in interpreter.get_output_details()])
    return outputs


def _output(interpreter: Any, detail: dict[str, Any]) -> Array:
    """Return a copy of an output tensor; LiteRT refuses to return empty ones."""
    if 0 in detail["shape"]:
        return np.zeros(tuple(detail["shape"]), detail["dtype"])
    return np.array(interpreter.get_tensor(detail["index"]))


# -- comparison --------------------------------------------------------------------------------


def differences(
    names: Sequence[str], ours: Sequence[Array], theirs: Sequence[Array], tolerance: float | None = None
) -> list[str]:
    """Return a sentence for each output that differs; ``tolerance``: a part of the largest magnitude."""
    found = []
    for name, a, b in zip(names, ours, theirs, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            found.append(f"%{name} is {a.dtype}{list(a.shape)}, by LiteRT {b.dtype}{list(b.shape)}")
            continue
        if is_text(a):
            if a.tolist() != b.tolist():
                found.append(f"%{name}, LiteRT's and ours: {b.tolist()} and {a.tolist()}")
            continue
        part = TOLERANCE if tolerance is None else tolerance
        allowed = part * largest_magnitude(b) if b.dtype.kind in "fc" else 0.0
        worst = worst_difference(b, a, allowed)
        if worst is not None and not worst.equal:
            found.append(f"%{name}, LiteRT's and ours: {worst}")
    return found


def is_text(array: Array) -> bool:
    """Return whether the elements are strings."""
    return array.dtype.kind in "OSU"


# -- a process of its own ----------------------------------------------------------------------


class LiteRTProcess:
    """LiteRT in another process, which is started at first use and again after a model has ended it."""

    def __init__(self, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.timeout_seconds = timeout_seconds
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None

    def run(
        self, data: bytes, steps: Sequence[Sequence[Array]], kernels: Kernels = Kernels.REFERENCE
    ) -> list[list[Array]]:
        """Do what ``run_steps`` does; EquivalenceError also where LiteRT crashes or takes too long."""
        answer = self._ask((data, steps, kernels))
        if isinstance(answer, Exception):
            raise answer
        result: list[list[Array]] = answer
        return result

    def accepts(self, data: bytes) -> bool:
        """Return whether LiteRT's flatbuffer verifier accepts a file, even if LiteRT then crashes."""
        return "not a valid Flatbuffer" not in str(self._ask((data, None, Kernels.OPTIMIZED)))

    def _ask(self, request: Any) -> Any:
        if self._process is None or self._pipe is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        try:
            self._pipe.send(request)
            if self._pipe.poll(self.timeout_seconds):
                return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            return EquivalenceError(f"LiteRT crashes on the model (exit code {self.close()})")
        self.close()
        return EquivalenceError(f"LiteRT takes longer than {self.timeout_seconds} s")

    def close(self) -> int | None:
        """End the process and return its exit code; None where there was no process."""
        process, self._process = self._process, None
        pipe, self._pipe = self._pipe, None
        if process is None or pipe is None:
            return None
        process.kill()
        process.join()
        pipe.close()
        return process.exitcode

    def __enter__(self) -> LiteRTProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def accepted_files(files: Sequence[bytes]) -> list[bool]:
    """Return for each of ``files`` whether LiteRT's flatbuffer verifier accepts it."""
    with LiteRTProcess() as litert:
        return [litert.accepts(data) for data in files]


def _serve(pipe: Connection) -> None:
    """Answer requests (file, input sets or None, kernels) with outputs, or with the exception."""
    faulthandler.disable()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # LiteRT also prints the errors that it raises
    with suppress(EOFError):
        while True:
            data, steps, kernels = pipe.recv()
            try:
                if steps is None:
                    pipe.send(make_interpreter(data, kernels) and None)
                else:
                    pipe.send(run_steps(data, steps, kernels))
            except Exception as error:
                pipe.send(EquivalenceError(str(error)) if steps is None else error)
