# SPDX-License-Identifier: Apache-2.0
"""One case: a random operator in a form that LiteRT has, run by LiteRT and by circlekit."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cache
from typing import NamedTuple

import numpy as np

from circlekit.equivalence.litert import TOLERANCE, differences, make_interpreter, run_interpreter
from circlekit.equivalence.litert_undefined import undefined
from circlekit.equivalence.workers import Loss, Tell, Workers, silence_stderr
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp import run
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.targets.operator_form import form_of
from circlekit.targets.target import find_target
from circlekit.testing.model_builder import Rejected, graph_of
from tools.samples.drawing import sampled_codes
from tools.samples.typed_operator import Sample, draw_sample
from tools.samples.types import FILTERS, QUANTIZABLE, Types, types_of

CASE_SECONDS = 30.0
ATTEMPTS = 40
"""The largest number of samples that are drawn in search of one that LiteRT's table has."""

FLOAT_PROBABILITY = 0.3
"""With this probability, only the forms with float data (if there are any) take part, else all forms."""

FLOAT16_TOLERANCE = 1e-3
"""float16 has 11 significant bits; results may differ in the last one."""

OPTIMIZED_ORACLE = frozenset({"SUM", "LOCAL_RESPONSE_NORMALIZATION"})
"""Operators compared with LiteRT's optimized kernels, because its reference kernels are wrong: SUM of int8
and int16 starts from unset memory, and LOCAL_RESPONSE_NORMALIZATION omits the last channel of a window."""

BOUNDED = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)
"""The fused activations of samples."""


class Verdict(Enum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_OURS = "not supported by us"
    NOT_LITERT = "not supported by LiteRT"
    NOT_MADE = "no operands found"


class Job(NamedTuple):
    """Case ``number`` of an operator in the run with ``seed``."""

    code: str
    seed: int
    number: int


class Done(NamedTuple):
    """How a case ended.  ``label``: dtype and quantization of the data, and of the weights."""

    job: Job
    label: str
    verdict: Verdict
    reason: str = ""


@cache
def forms(code: str) -> tuple[Types, ...]:
    """Return the types of the forms that LiteRT's table has of an operator."""
    known = find_target("litert").operators.get(code, {"forms": "any"})["forms"]
    found = (types_of(REGISTRY[code], form) for form in sorted(known if known != "any" else ()))
    return tuple(types for types in found if types is not None)


@cache
def codes() -> list[str]:
    """Return the codes of all operators that can be drawn in a form of LiteRT's table."""
    return [code for code in sampled_codes("tflite") if forms(code)]


def draw_case(job: Job) -> Sample:
    """Return the sample of a case; raise Rejected if none was found that LiteRT's table has."""
    code, seed, number = job
    random = np.random.default_rng([seed, zlib.crc32(code.encode()), number])
    every = forms(code)
    floats = tuple(types for types in every if not _has_integer_data(types)) or every
    for attempt in range(ATTEMPTS):
        some = floats if random.random() < FLOAT_PROBABILITY else every
        types = some[int(random.integers(len(some)))]
        sample = draw_sample(code, types, ATTEMPTS * number + attempt, seed, small=False)
        if sample is not None and is_defined(sample.op):
            return sample
    raise Rejected


def _has_integer_data(types: Types) -> bool:
    """Return whether the first operand holds integers."""
    return any(dtype is not None and dtype.is_integer for dtype in types.dtypes[:1])


def is_defined(op: Op) -> bool:
    """Return whether a file can hold ``op``, LiteRT's table has it, and its results are defined.

    If the results of ``op`` have scales of their own, its first operand and result must be quantized where
    their dtypes can be.
    """
    quantizable = [v for v in (*op.inputs[:1], *op.results[:1]) if v is not None and v.dtype in QUANTIZABLE]
    is_scaled = all(v.quantization is not None for v in quantizable)
    computes = op.quantization_rule is not None and not (
        op.data_movement or op.quantization_rule.results_follow
    )
    constants = [v for v in op.inputs if v is not None and v.is_const]
    return (
        op.attribute_values.get("act", Activation.NONE) in BOUNDED
        and all(v.array().size for v in constants)  # a file holds no empty constant
        and (is_scaled or not computes)
        and find_target("litert").refusal(op) is None
        and undefined(Model([graph_of(op)] if op.graph is None else [op.graph])) is None
    )


def label_of(op: Op) -> str:
    """Return the label of ``Done``, such as ``i8q x i8qc``."""
    operands, specs = form_of(op).partition(":")[0].split(","), [spec.name for spec in op.operands]
    weights = [text for name, text in zip(specs, operands, strict=False) if name in (*FILTERS, "y")]
    data = [
        text for name, text in zip(specs, operands, strict=False) if name not in (*FILTERS, "output_shape")
    ]
    return " x ".join([*data[:1], *weights[:1]])


def judge(sample: Sample, tell: Tell = lambda news: None) -> tuple[Verdict, str]:
    """Run a sample with LiteRT, then circlekit; call ``tell`` before each; return verdict and reason."""
    op, content = sample.op, to_bytes(Model([sample.graph], format="tflite"), "tflite")
    kernels = Kernels.OPTIMIZED if op.code in OPTIMIZED_ORACLE else None
    tell("LiteRT")
    try:
        wanted = run_interpreter(make_interpreter(content, kernels or Kernels.REFERENCE), [sample.inputs])[0]
    except (ValueError, RuntimeError, TypeError) as error:
        return Verdict.NOT_LITERT, _first_line(error)
    tell("circlekit")
    try:
        found = run(load_bytes(content), [array.copy() for array in sample.inputs], kernels=kernels)
        return compare(found, wanted, magnitude(sample))
    except UnsupportedError as error:
        return Verdict.NOT_OURS, error.message
    except CirclekitError as error:
        return Verdict.FAILED, f"{type(error).__name__}: {error.message}"


def magnitude(sample: Sample) -> float:
    """Return the largest magnitude of the terms of a reduction, or of float results before an activation.

    Return 0 for other operators.
    """
    op = sample.op
    if "keep_dims" in op.attribute_values:
        terms = (a[np.isfinite(a)] for a in sample.inputs if a.dtype.kind == "f")
        return max((float(np.abs(a).max(initial=0.0)) for a in terms), default=0.0)
    if op.attribute_values.get("act", Activation.NONE) is Activation.NONE or not op.output.dtype.is_float:
        return 0.0
    bare = graph_of(type(op)(*op.inputs, **op.attribute_values | {"act": Activation.NONE}))
    (out,) = run(Model([bare]), sample.inputs)
    return float(np.abs(out[np.isfinite(out)]).max(initial=0.0))


def compare(found: Sequence[Array], wanted: Sequence[Array], magnitude: float = 0.0) -> tuple[Verdict, str]:
    """Compare the outputs of circlekit with those of LiteRT; return the verdict and its reason.

    The tolerance of floats is relative to their largest magnitude, or to ``magnitude`` if that is larger.
    """
    for index, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        texts = differences([f"output{index}"], [ours], [theirs], _tolerance(theirs, magnitude))
        if texts:
            return Verdict.FAILED, texts[0]
    return Verdict.PASSED, ""


def _tolerance(reference: Array, magnitude: float) -> float:
    """Return the tolerance as a part of the largest magnitude of ``reference``."""
    tolerance = FLOAT16_TOLERANCE if reference.dtype == np.float16 else TOLERANCE
    if not magnitude or reference.dtype.kind != "f":
        return tolerance
    largest = float(np.abs(reference[np.isfinite(reference)]).max(initial=0.0))
    return tolerance * max(1.0, magnitude / largest) if largest else tolerance


def _first_line(error: Exception) -> str:
    """Return the first line of LiteRT's message, without source locations and node numbers."""
    text = re.sub(r"\s*(ERROR: )?\S*\.(cc|h):\d+\s*", " ", str(error)).strip()
    text = re.sub(r"\s*Node number.*", "", text, flags=re.S)
    return (text.splitlines() or [type(error).__name__])[0].strip()[:160]


# -- many cases ----------------------------------------------------------------------------------


def run_here(job: Job, tell: Tell = lambda news: None) -> Done:
    """Run one case in this process; ``tell`` is called with its label, then as ``judge`` does."""
    label = "?"
    try:
        sample = draw_case(job)
        label = label_of(sample.op)
        tell(label)
        return Done(job, label, *judge(sample, tell))
    except Rejected:
        return Done(job, label, Verdict.NOT_MADE)
    except Exception as error:  # any exception is a failure of the case
        return Done(job, label, Verdict.FAILED, f"{type(error).__name__}: {error}"[:300])


def run_all(jobs: Sequence[Job], processes: int = 2) -> Iterator[Done]:
    """Yield the outcome of every job, in any order."""
    return Workers(run_here, _lost, silence_stderr, CASE_SECONDS).results(jobs, processes)


def _lost(loss: Loss[Job]) -> Done:
    label, *phases = loss.news or ("?",)  # what ``run_here`` told before the worker was lost
    phase = phases[-1] if phases else "drawing"
    verdict = Verdict.NOT_LITERT if phase == "LiteRT" else Verdict.FAILED
    return Done(loss.job, label, verdict, f"{phase} {loss}")
