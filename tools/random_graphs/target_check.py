# SPDX-License-Identifier: Apache-2.0
"""Does LiteRT run the result of O1 and of every pass, for every model that it ran before, with equal values?

Models are random graphs or recipes, as they are and with other dtypes; the target of the passes is litert.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import circlekit
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.equivalence.workers import Loss, Tell, Workers, silence_stderr
from circlekit.errors import CirclekitError
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.passes.engine.driver import run_passes
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.registry import find_pass, select_passes
from circlekit.passes.engine.written_form import rules_of_targets
from circlekit.recipes.load import load_recipe
from circlekit.rewrite.base import Context
from circlekit.targets.findings import TargetSet
from circlekit.targets.target import find_target
from circlekit.testing.model_builder import UNKNOWN_SIZE, Rejected
from tools.random_graphs.checks import Original
from tools.random_graphs.graphs import PARTS, make, random_steps, unknown_custom
from tools.random_graphs.litert_check import TARGET, Result, litert_faults
from tools.random_graphs.retype import RETYPES, retype

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
            return (model, inputs) if kind is None else retype(model, inputs, kind, seed)
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
    try:
        original = Original(model, inputs)
    except CirclekitError:
        return Outcome(seed)
    raised: list[str] = []
    results = list(_results(model, passes, raised, tell))
    tell("LiteRT")
    faults = litert_faults(original, results)
    return Outcome(seed) if faults is None else Outcome(seed, True, len(results), (*raised, *faults))


def _results(model: Model, passes: Sequence[str], raised: list[str], tell: Tell) -> Iterator[Result]:
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
                content = to_bytes(legalize(result, "tflite", targets=targets.targets), "tflite")
                yield Result(name, content, name not in kept or not find_pass(name).changes_values)
        except Exception as error:  # a pass may raise anything
            raised.append(f"{name}: {type(error).__name__}: {error}")
            copy = None
