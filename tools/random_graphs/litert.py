# SPDX-License-Identifier: Apache-2.0
"""The same model before and after, by LiteRT.

LiteRT runs in a process of its own, for there are models that end it.  As a program this module reads lines
of JSON, [model, inputs.npz, outputs.npz, kernels], and answers each with a line.
"""

from __future__ import annotations

import atexit
import json
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import circlekit
from circlekit.errors import CirclekitError
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from tools.random_graphs.checks import Fault, Original
from tools.random_graphs.undefined import needs_fast_kernels, undefined

DONE = "done"
SECONDS = 60
"""How long LiteRT may take for a model."""

REFERENCE, FAST = "BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
"""LiteRT's two sets of kernels."""

LACKING = "Didn't find op"
"""What LiteRT says where a set of kernels has not that operator, or not that version of it."""


class _Worker:
    """The process, which is started when it is wanted, and again when a model has ended it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def ask(self, line: str) -> str:
        """The answer to ``line``; RuntimeError where there is none."""
        if self.process is None:
            command = [sys.executable, "-m", __name__]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        answer = self.process.stdout.readline() if ready else ""
        if not answer:
            raise RuntimeError(f"it ended with {self.close()}")
        return answer.strip()

    def close(self) -> int:
        """End the process; how it ended."""
        process, self.process = self.process, None
        if process is None:
            return 0
        with process:
            process.kill()
        return process.returncode


_WORKER = _Worker()
atexit.register(_WORKER.close)


def run_litert(path: Path, inputs: Sequence[Array], kernels: str = REFERENCE) -> list[Array]:
    """Outputs of a file by a set of kernels; RuntimeError where LiteRT refuses it or ends."""
    given, got = path.with_suffix(".inputs.npz"), path.with_suffix(".outputs.npz")
    np.savez(given, *inputs)
    answer = _WORKER.ask(json.dumps([str(path), str(given), str(got), kernels]))
    if answer != DONE:
        raise RuntimeError(answer)
    with np.load(got) as arrays:
        return [arrays[f"arr_{number}"] for number in range(len(arrays.files))]


def _run(path: str, inputs: Sequence[Array], kernels: str) -> list[Array]:
    kind = OpResolverType[kernels]
    interpreter = Interpreter(path, experimental_op_resolver_type=kind, num_threads=1)
    details = interpreter.get_input_details()
    for detail, array in zip(details, inputs, strict=True):
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def check_litert(original: Original, model: Model, folder: Path) -> bool:
    """Whether LiteRT takes the original; Fault where it then gives other values for ``model``, or none.

    Both are run by the same kernels: those of the reference, or the fast ones where it lacks an operator.
    """
    if undefined(original.model) is not None:
        return False
    fast = needs_fast_kernels(original.model) or needs_fast_kernels(model)
    before, after = folder / "before.tflite", folder / "after.tflite"
    try:
        circlekit.save(original.model, before)
        kernels, wanted = _outputs(before, original.inputs, (FAST,) if fast else (REFERENCE, FAST))
    except (RuntimeError, CirclekitError):
        return False
    try:
        circlekit.save(model, after)
        used, found = _outputs(after, original.inputs, (FAST,) if kernels == FAST else (REFERENCE, FAST))
        if used != kernels:
            _, wanted = _outputs(before, original.inputs, (used,))
    except (RuntimeError, CirclekitError) as error:
        raise Fault(f"LiteRT {type(error).__name__}", str(error)) from error
    for inputs, a, b, has_nan in zip(original.inputs, found, wanted, original.has_nan, strict=True):
        if not has_nan:
            original.check_close(inputs, a, b)
    return True


def _outputs(
    path: Path, inputs: Sequence[Sequence[Array]], sets: Sequence[str]
) -> tuple[str, list[list[Array]]]:
    """The first of ``sets`` that has all operators of the file, and the outputs for each of ``inputs``."""
    kernels, *others = sets
    try:
        return kernels, [run_litert(path, arrays, kernels) for arrays in inputs]
    except RuntimeError as error:
        if LACKING not in str(error) or not others:
            raise
    return _outputs(path, inputs, others)


def main() -> None:
    for line in sys.stdin:
        model, given, got, kernels = json.loads(line)
        try:
            with np.load(given) as arrays:
                inputs = [arrays[f"arr_{number}"] for number in range(len(arrays.files))]
            np.savez(got, *_run(model, inputs, kernels))
            answer = DONE
        except (ValueError, RuntimeError) as error:
            answer = " ".join(str(error).split()) or "it is refused"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
