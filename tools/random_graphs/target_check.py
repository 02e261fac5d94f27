# SPDX-License-Identifier: Apache-2.0
"""Does LiteRT run the result of O1 and of every pass, for every model that it ran before, with equal values?

Models are random graphs or recipes, as they are and with other dtypes; the target of the passes is litert.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

import circlekit
from circlekit.equivalence.litert import run_litert_forked, tflite_of
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.equivalence.workers import Loss, Tell, Workers, silence_stderr
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp import run
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.passes.engine.driver import run_passes
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.registry import find_pass, select_passes
from circlekit.passes.engine.written_form import rules_of_targets
from circlekit.recipes.load import load_recipe
from circlekit.rewrite.base import Context
from circlekit.targets.findings import TargetSet
from circlekit.targets.target import find_target
from circlekit.testing.model_builder import UNKNOWN_SIZE, Rejected
from tools.probe_targets.runtimes import RUNTIMES, Job, run_jobs
from tools.random_graphs.checks import Fault, Original
from tools.random_graphs.graphs import PARTS, make, random_steps, unknown_custom
from tools.random_graphs.litert_undefined import undefined
from tools.random_graphs.retype import RETYPES, retype

TARGET = "litert"
NO_PASS, PIPELINE = "no pass", "O1"
MODEL_SECONDS = 300.0


class Outcome(NamedTuple):
    """``runs``: whether LiteRT runs the original of model ``seed``.  ``results``: how many were compared.

    ``faults``: a sentence for each result that LiteRT does not run, or that has other values.
    """

    seed: int
    runs: bool = False
    results: int = 0
    faults: tuple[str, ...] = ()


def recipes_below(folders: Sequence[str]) -> list[Path]:
    """Return all recipes in ``folders``."""
    found = (path for folder in folders for path in sorted(Path(folder).rglob("*")))
    return [path for path in found if path.suffix == ".ck" or path.name == "test.recipe"]


def model_of(seed: int, recipes: Sequence[Path] = ()) -> tuple[Model, list[Array]] | None:
    """Return model ``seed`` with inputs: a random graph, or one of ``recipes``; mostly with other dtypes.

    None if it does not run, or has no form with the other dtypes.
    """
    with np.errstate(all="ignore"):
        if recipes:
            model = load_recipe(recipes[seed % len(recipes)])
            kind = (None, *RETYPES)[seed // len(recipes) % (len(RETYPES) + 1)]
        else:
            steps = [step for step in random_steps(seed) if PARTS[step.part] is not unknown_custom]
            model, inputs = make(seed, steps)
            kind = RETYPES[seed // 2 % len(RETYPES)] if seed % 2 else None
        try:
            if recipes:
                inputs = make_inputs(model.main, InputSet("normal"), unknown=UNKNOWN_SIZE)
                circlekit.run(model, inputs)
            random = np.random.default_rng([seed, 11])
            return (model, inputs) if kind is None else retype(model, inputs, kind, random)
        except (CirclekitError, Rejected, KeyError):  # KeyError: variables are not retyped
            return None


def check_all(
    seeds: Sequence[int], recipes: Sequence[Path], passes: Sequence[str], jobs: int
) -> Iterator[Outcome]:
    """Yield the outcome of each of ``seeds``, in any order."""

    def work(seed: int, tell: Tell) -> Outcome:
        made = model_of(seed, recipes)
        return Outcome(seed) if made is None else check_target(seed, *made, passes, tell)

    def lost(loss: Loss[int]) -> Outcome:
        return Outcome(loss.job, True, 0, (f"{loss.news[-1] if loss.news else 'making'}: {loss}",))

    yield from Workers(work, lost, silence_stderr, MODEL_SECONDS).results(seeds, jobs)


def check_target(
    seed: int, model: Model, inputs: Sequence[Array], passes: Sequence[str], tell: Tell = lambda _: None
) -> Outcome:
    """Return what LiteRT makes of the results of O1 and of ``passes``; ``tell``: called with each phase."""
    tell("original")
    if undefined(model) is not None:
        return Outcome(seed)
    try:
        original = Original(model, inputs)
        originals = [Job(content, original.inputs[0]) for content in _originals(model)]
    except CirclekitError:
        return Outcome(seed)
    runtime = RUNTIMES[TARGET]
    wanted = next((ran for ran in run_jobs(runtime, originals) if ran.outputs is not None), None)
    if wanted is None or wanted.outputs is None:
        return Outcome(seed)
    faults: list[str] = []
    found = list(_results(model, passes, faults, tell))
    tell("LiteRT")
    results = [Job(content, original.inputs[0]) for _, content in found]
    for (name, content), ran in zip(found, run_jobs(runtime, results), strict=True):
        keeps_values = name in (NO_PASS, PIPELINE) or not find_pass(name).changes_values
        if ran.outputs is None:
            faults.append(f"{name}: LiteRT does not run it: {ran.reason}")
        elif keeps_values and not original.has_nan[0]:
            try:
                original.check_close(original.inputs[0], ran.outputs, wanted.outputs)
            except (Fault, ValueError) as fault:
                if any(job.content == content for job in originals):
                    return Outcome(seed)  # LiteRT computes other values in each run
                if not (
                    _is_equal_in_reference(original, originals, content)
                    or _is_rounding(original, content, ran.outputs, wanted.outputs)
                ):
                    faults.append(f"{name}: {fault}")
    return Outcome(seed, True, len(found), tuple(faults))


def _originals(model: Model) -> Iterator[bytes]:
    """Yield the model as TFLite as it is, if it can be, and legalized."""
    with suppress(UnsupportedError):
        yield to_bytes(model, "tflite")
    yield tflite_of(model)


def _results(
    model: Model, passes: Sequence[str], faults: list[str], tell: Tell
) -> Iterator[tuple[str, bytes]]:
    """Yield the file after no pass, O1, and each of ``passes`` that changes something."""
    targets = TargetSet((find_target(TARGET),))
    kept = [name for name in passes if not find_pass(name).changes_interface]
    copy: Model | None = None
    for name in (NO_PASS, PIPELINE, *kept):
        tell(name)
        copy = copy or clone(model)
        rules = rules_of_targets(targets, "tflite")
        context = Context("tflite", exact=True, target=rules)  # the others change values on purpose
        try:
            selected = select_passes([] if name == NO_PASS else [name], format="tflite")
            records = run_passes(copy, selected, context)
            if name == NO_PASS or any(record.changes for record in records):
                result, copy = copy, None
                yield name, to_bytes(legalize(result, "tflite", targets=targets.targets), "tflite")
        except Exception as error:  # a pass may raise anything
            faults.append(f"{name}: {type(error).__name__}: {error}")
            copy = None


def _is_equal_in_reference(original: Original, originals: Sequence[Job], content: bytes) -> bool:
    """Return whether the reference kernels give equal values: optimized kernels differ in their rounding."""
    steps = [original.inputs[0]]
    for job in originals:
        try:
            wanted, found = (run_litert_forked(data, steps)[0] for data in (job.content, content))
            original.check_close(steps[0], found, wanted)
        except CirclekitError:
            continue
        except (Fault, ValueError):
            return False
        return True
    return False


def _is_rounding(original: Original, content: bytes, found: Sequence[Array], wanted: Sequence[Array]) -> bool:
    """Return whether our interpreter shows that the rounding of LiteRT's optimized kernels is the difference.

    With optimized kernels, it gives LiteRT's values before and after.  With reference kernels, also where
    LiteRT has none, its values are equal.  LiteRT's optimized MEAN of height and width, for example, rounds
    otherwise than that of other axes.
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
