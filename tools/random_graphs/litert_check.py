# SPDX-License-Identifier: Apache-2.0
"""Check that LiteRT runs the results of passes, with the values of the original model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from circlekit.equivalence.litert import run_litert_forked, tflite_of
from circlekit.equivalence.litert_undefined import undefined
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp import run
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from tools.probe_targets.runtimes import RUNTIMES, Job, run_jobs
from tools.random_graphs.checks import Fault, Original

TARGET = "litert"


class PassFile(NamedTuple):
    """The TFLite file that ``name``, a pass or a pipeline, made.

    ``keeps_values``: whether the values must be those of the original model.
    """

    name: str
    content: bytes
    keeps_values: bool = True


def litert_faults(original: Original, results: Sequence[PassFile]) -> list[tuple[str, str]] | None:
    """Return (name, sentence) for each result that LiteRT does not run, or that has other values.

    Return None if the original cannot be judged: its values are not defined, LiteRT does not run it, or a
    result with the bytes of the original has other values.  Other values do not count if the original has
    NaN, if LiteRT's reference kernels give equal values, or if our interpreter shows that only the rounding
    differs.
    """
    if undefined(original.model) is not None:
        return None
    inputs, runtime = original.inputs[0], RUNTIMES[TARGET]
    try:
        originals = list(_files_of(original.model))
    except CirclekitError:
        return None
    ran_before = run_jobs(runtime, [Job(content, inputs) for content in originals])
    wanted = next((ran.outputs for ran in ran_before if ran.outputs is not None), None)
    if wanted is None:
        return None
    faults = []
    ran_after = run_jobs(runtime, [Job(result.content, inputs) for result in results])
    for (name, content, keeps_values), ran in zip(results, ran_after, strict=True):
        if ran.outputs is None:
            faults.append((name, f"LiteRT does not run it: {ran.reason}"))
        elif keeps_values and not original.has_nan[0]:
            try:
                original.check_close(inputs, ran.outputs, wanted)
            except (Fault, ValueError) as fault:
                if content in originals:
                    return None
                if not (
                    _is_equal_in_reference(original, originals, content)
                    or _is_rounding(original, content, ran.outputs, wanted)
                ):
                    faults.append((name, str(fault)))
    return faults


def _files_of(model: Model) -> Iterator[bytes]:
    """Yield TFLite files: of the model as it is, if it can be written, and of the legalized model."""
    with suppress(UnsupportedError):
        yield to_bytes(model, "tflite")
    yield tflite_of(model)


def _is_equal_in_reference(original: Original, originals: Sequence[bytes], content: bytes) -> bool:
    """Return whether LiteRT's reference kernels give equal values for ``content`` and an original."""
    steps = [original.inputs[0]]
    for before in originals:
        try:
            wanted, found = (run_litert_forked(data, steps)[0] for data in (before, content))
            original.check_close(steps[0], found, wanted)
        except CirclekitError:
            continue
        except (Fault, ValueError):
            return False
        return True
    return False


def _is_rounding(original: Original, content: bytes, found: Sequence[Array], wanted: Sequence[Array]) -> bool:
    """Return whether our interpreter shows that LiteRT's optimized kernels only round differently.

    With optimized kernels, our interpreter must give LiteRT's values for both models.  With reference kernels
    (LiteRT lacks some), it must give equal values for both.  For example, LiteRT's optimized MEAN over height
    and width does not round as its MEAN over other axes.
    """
    inputs, models = original.inputs[0], (original.model, load_bytes(content))
    try:
        for model, outputs in zip(models, (wanted, found), strict=True):
            original.check_close(inputs, run(model, inputs, kernels=Kernels.OPTIMIZED), outputs)
        before, after = (run(model, inputs, kernels=Kernels.REFERENCE) for model in models)
        original.check_close(inputs, after, before)
    except (CirclekitError, Fault, ValueError):
        return False
    return True
