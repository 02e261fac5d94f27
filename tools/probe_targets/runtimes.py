# SPDX-License-Identifier: Apache-2.0
"""Run models on LiteRT, with or without its XNNPACK delegate, and on onert, in processes of their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from circlekit.equivalence.litert import make_interpreter, run_interpreter
from circlekit.equivalence.sandbox import ProcessLost, run_forked
from circlekit.ir.dtypes import DType, boolean, f32, i8, i16, i32, i64, u8
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels

SECONDS = 10.0
"""Time limit of one model."""

CRASH = "the process ends"
"""The beginning of the reason if a process ended."""

FAILS_IN_RUN = "failed to invoke", "Error during nnfw_session::run"
"""Parts of the messages of runtimes that took a model and then failed to run it."""

UNREGISTERED = "Didn't find op for builtin opcode", "Unsupported operation"


def is_registered(reason: str) -> bool:
    """Return whether a runtime has an operator in some version and form.

    ``reason``: why the runtime refuses a model of the operator; empty if it does not.
    """
    return not any(words in reason for words in UNREGISTERED)


class Ran(NamedTuple):
    """How a run ended.  ``outputs``: None if the runtime refuses the model (``reason``) or crashes."""

    outputs: list[Array] | None
    reason: str = ""


class Job(NamedTuple):
    content: bytes
    inputs: list[Array]


class Runtime(NamedTuple):
    """A runtime and the format of its files.

    ``package``: its Python package.  ``run``: runs a model; it may raise any exception, and may end the
    process.  ``module``: the module of the package that it imports.
    """

    title: str
    format: str
    package: str
    run: Callable[[Job], Ran]
    module: str
    dtypes: frozenset[DType] = frozenset(DType)
    """The dtypes that it has for some tensor; no others are tried."""
    checks_first: bool = False
    """Whether its table has the constraints of its published checks: these are tried first, others last."""
    sized_dtypes: frozenset[DType] = frozenset()
    """The dtypes of inputs of unknown shape whose sizes ``run`` can state before the model is prepared."""

    @property
    def version(self) -> str:
        return version(self.package)


def run_jobs(runtime: Runtime, jobs: Sequence[Job]) -> Iterator[Ran]:
    """Yield the result of each job, also of those that end the process.

    If a process ends at its first job, this job is the cause.  At a later job, an earlier one may be the
    cause: the job is run again, as the first of a new process.
    """
    import_module(runtime.module)  # forked processes do not import it again
    done = 0
    while done < len(jobs):
        rest, before = jobs[done:], done
        try:
            for ran in run_forked(lambda: map(lambda job: _run(runtime, job), rest), SECONDS):  # noqa: B023, C417
                done += 1
                yield ran
        except ProcessLost as lost:
            if done == before:
                done += 1
                yield Ran(None, f"{CRASH}: {lost}")


def _run(runtime: Runtime, job: Job) -> Ran:
    try:
        return runtime.run(job)
    except Exception as error:  # whatever a runtime raises is a refusal
        return Ran(None, " ".join(str(error).split()) or type(error).__name__)


def _run_litert(job: Job) -> Ran:
    outputs = run_interpreter(make_interpreter(job.content, Kernels.OPTIMIZED), [job.inputs])[0]
    return Ran(outputs)


def _run_xnnpack(job: Job) -> Ran:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=job.content, num_threads=1)
    outputs = run_interpreter(interpreter, [job.inputs])[0]
    names = [detail["op_name"] for detail in interpreter._get_ops_details()]
    return Ran(outputs) if names[1:] == ["DELEGATE"] else Ran(None, "not delegated")


def _run_onert(job: Job) -> Ran:
    import onert.infer
    from onert.native.libnnfw_api_pybind import prepare_config

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(messages := os.memfd_create("messages"), 2)
    with tempfile.NamedTemporaryFile(suffix=".circle", dir=Path("/dev/shm"), delete=False) as file:
        file.write(job.content)
    try:
        session = onert.infer.session(file.name, "cpu")
        Path(file.name).unlink()  # the session has mapped it; what follows may end the process
        # not session.infer, which fails on inputs of rank 0
        for index, info in enumerate(session.get_inputs_tensorinfo()):
            if -1 in info.dims[: info.rank]:
                info.dims = list(job.inputs[index].shape)
                session.session.set_input_tensorinfo(index, info)
        session.session.set_prepare_config(prepare_config.ENABLE_INTERNAL_OUTPUT_ALLOC)
        session.session.prepare()
        inputs = [np.ascontiguousarray(array).reshape(array.shape) for array in job.inputs]
        session.set_inputs(len(inputs), inputs)
        session.session.run()
        session._set_outputs(session.session.output_size())
    except Exception:
        return Ran(None, os.pread(messages, 1000, 0).decode() or "refused")
    finally:
        os.close(messages)
        Path(file.name).unlink(missing_ok=True)
    return Ran([array.copy() for array in session.outputs])


ONERT_DTYPES = frozenset({f32, i32, i64, i16, i8, u8, boolean})
ONERT_SIZED = frozenset({f32, i32, i64, boolean})
"""The dtypes of inputs whose sizes onert's Python package can state; its C interface takes others, too."""

LITERT = "ai_edge_litert.interpreter"
RUNTIMES = {
    "litert": Runtime("LiteRT", "tflite", "ai-edge-litert", _run_litert, LITERT),
    "litert-xnnpack": Runtime(
        "LiteRT with XNNPACK", "tflite", "ai-edge-litert", _run_xnnpack, LITERT, checks_first=True
    ),
    "onert": Runtime(
        "onert", "circle", "onert", _run_onert, "onert.infer", ONERT_DTYPES, sized_dtypes=ONERT_SIZED
    ),
}
