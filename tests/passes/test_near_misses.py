# SPDX-License-Identifier: Apache-2.0
"""Near misses: recipes for each condition, and mutants, which are models with one thing changed.

Each condition of a picture is the reason of a refusal in a recipe of its pass.  A pass rewrites a mutant with
equal values, or its picture refuses it with a message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlekit.errors import CirclekitError, RewriteError
from circlekit.interp.interpreter import run, select_kernels
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.text import print_model
from circlekit.ir.value import Array, Value
from circlekit.ir.verifier import check
from circlekit.passes.engine.describe import rules_of
from circlekit.passes.engine.explain import explain_pass
from circlekit.passes.engine.registry import all_passes
from circlekit.recipes.dredd_cases import cases_of
from circlekit.recipes.load import load_recipe
from circlekit.rewrite.base import Context, Pass, Refusal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules
from tests.passes.from_picture import model_of
from tests.passes.kit import KINDS, assert_close, interface_of, make_input
from tests.passes.mutants import mutants

RECIPES = Path(__file__).parents[2] / "recipes" / "passes"
PICTURES = {n: item for n, item in all_passes().items() if issubclass(item, Rewrite | Rules)}


def names_of(model: Model) -> set[str]:
    return {value.name for graph in model.graphs for value in graph.values()}


def assert_sentence(refusal: Refusal, model: Model) -> None:
    """Assert that the message names a value of the model and gives a reason."""
    assert re.search(r"[a-z]{2}", refusal.sentence.split(" ", 1)[1]), refusal.sentence
    known = names_of(model)
    named = [name for name in known if f"%{name}" in refusal.sentence]
    assert named, f"names no value of the model: {refusal.sentence}"


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_each_condition_refuses_a_recipe(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each condition of a pass is the reason of a refusal that the pass records for one of its recipes.

    The recipe may be a positive, because another picture of the pass may then rewrite the operator.
    """
    answers: list[tuple[str, str]] = []  # (condition, its sentence)
    answer_of = Rewrite._answer

    def recorded(self: Rewrite, condition: str, match: Match) -> str | None:
        answer = answer_of(self, condition, match)
        if answer is not None:
            answers.append((getattr(type(self), condition).__qualname__, answer))
        return answer

    monkeypatch.setattr(Rewrite, "_answer", recorded)
    rules = rules_of(PICTURES[name])
    unused = {
        getattr(rule, condition).__qualname__ for rule in rules for condition in rule.definition().conditions
    }
    for path in recipes_of(name) if unused else ():
        sentences = sentences_of(name, path)
        # the engine may put the name of the result before an answer
        unused -= {c for c, answer in answers if any(s.endswith(answer) for s in sentences)}
        answers.clear()
    advice = (
        f"write recipes/passes/{name}-CONDITION.ck, in which nothing else refuses, with the rules"
        ' unchanged() and refused("..."); delete a condition if others always refuse before it'
    )
    assert not unused, f"{name}: no recipe is refused by {', '.join(sorted(unused))}; {advice}"


def recipes_of(name: str) -> list[Path]:
    """Return the paths of the recipes NAME.ck and NAME-CONDITION.ck of a pass."""
    return [path for path in sorted(RECIPES.glob(f"{name}*.ck")) if path.stem.partition("-")[0] == name]


def sentences_of(name: str, path: Path) -> list[str]:
    """Run a pass alone on the model of a recipe and return the sentences of its refusals."""
    model, rules = load_recipe(path), cases_of(path, passes=[name])[0].rules()
    refusals: list[Refusal] = []
    context = Context(rules.format or model.format, settings=rules.settings, refusals=refusals)
    all_passes()[name]().run(model, context)
    return [refusal.sentence for refusal in refusals]


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_mutants_of_recipes(name: str) -> None:
    """Each mutant of the pass's own recipe is rewritten with equal values, or some operators are refused.

    An operator has at most one message.
    """
    path = RECIPES / f"{name}.ck"
    if not path.exists():
        pytest.skip("the recipe is missing; test_recipes_of_pass says so")
    assert check_mutants(name, load_recipe(path))


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_mutants_of_pictures(name: str) -> None:
    """Check the mutants of models that are made from up to MAX_PICTURES pictures of the pass."""
    for model in instances(name):
        assert model is None or check_mutants(name, model)


@pytest.mark.parametrize("name", sorted(all_passes().keys() - PICTURES.keys()))
def test_mutants_for_passes_without_picture(name: str) -> None:
    """Check the mutants of the recipes of passes without a picture.

    These passes need not say why they change nothing.
    """
    for path in recipes_of(name):
        settings = cases_of(path, passes=[name])[0].rules().settings
        base = load_recipe(path)
        for what, mutant in mutants(base):
            with suppress(*[RewriteError] if settings else []):  # a setting names what the mutant lacks
                check_mutant(all_passes()[name], what, mutant, base, settings)


def test_most_pictures_have_instances() -> None:
    """Else test_mutants_of_pictures would test little; the tests of the passes cover the other pictures.

    No instances are made for conditions on operators outside of the picture, such as the producer of a value.
    """
    made = [model is not None for name in PICTURES for model in instances(name)]
    assert sum(made) > 0.75 * len(made)


@cache
def instances(name: str) -> list[Model | None]:
    """Return a model for each of up to MAX_PICTURES pictures of a pass; None where none can be made."""
    rules = rules_of(PICTURES[name])
    return [model_of(rule) for rule in rules[:: max(1, len(rules) // MAX_PICTURES)][:MAX_PICTURES]]


MAX_PICTURES = 2
"""The largest number of pictures of one pass whose mutants are tested; the others repeat the conditions."""


def check_mutants(name: str, base: Model) -> int:
    """Check all mutants and return their number."""
    count = 0
    for what, model in mutants(base):
        count += 1
        before = clone(model)
        if check_mutant(PICTURES[name], what, model, base):
            continue
        with naming(before):
            refusals = explain_pass(before, name, base.format)
            assert refusals, f"{what}: neither a change nor a sentence"
            assert max(Counter(id(r.op) for r in refusals).values()) == 1, f"{what}: several on one operator"
            for refusal in refusals:
                assert_sentence(refusal, model)
    return count


@contextmanager
def naming(model: Model) -> Iterator[None]:
    """Add the text of ``model`` to the message of an assertion that fails."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}\nin the model\n{print_model(model)}") from error


def check_mutant(
    kind: type[Pass], what: str, model: Model, base: Model, settings: Mapping[str, Any] | None = None
) -> int:
    """Run a pass on a mutant of ``base``, check values and interface, and return how many changes it made."""
    before = clone(model)
    with naming(before):
        changes = kind().run(model, Context(base.format, settings=settings or {}, refusals=[]))
        check(model)
        if changes and not kind.changes_interface:
            assert interface_of(model)[0] == interface_of(before)[0], what
        if changes and not (kind.changes_values or kind.changes_interface):
            assert_same_values(model, before, base, what)
    return changes


def assert_same_values(model: Model, before: Model, base: Model, what: str) -> None:
    """Compare the outputs of two forms of a mutant of ``base``, for inputs with the shapes of ``base``."""
    shapes = {value.name: value.shape for value in base.main.inputs}
    kernels = select_kernels(before)
    for kind in KINDS:
        values = [Value(v.name, v.dtype, shapes.get(v.name, v.shape)) for v in before.main.inputs]
        inputs = [make_input(value, kind) for value in values]
        try:
            wanted = run(before, inputs, kernels=kernels)
        except CirclekitError:  # an input stands for a shape or for axes; random numbers are invalid there
            continue
        assert_close(
            [finite(a) for a in run(model, inputs, kernels=kernels)],
            [finite(a) for a in wanted],
            f"{what}, {kind}",
        )


def finite(array: Array) -> Array:
    """Replace infinities with the largest number.

    LiteRT clamps sums, products and quotients to the largest number, but a root may be infinite.  So a
    rewrite of one into the other may change an infinity to the largest number; that is no difference here.
    """
    if array.dtype.kind != "f":
        return array
    most = np.finfo(array.dtype).max
    return np.asarray(np.clip(array, -most, most))
