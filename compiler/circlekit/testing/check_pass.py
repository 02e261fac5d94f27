# SPDX-License-Identifier: Apache-2.0
"""Test a pass with recipes: what it rewrites and refuses, equal values, validity, idempotence, LiteRT.

A recipe is a model as text, with rules: what must hold after some passes.  A case is one recipe to run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from circlekit.errors import CirclekitError, RewriteError, counted
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.shape_inference import check_shapes
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import find_pass, select_passes
from circlekit.recipes.dredd import run_case
from circlekit.recipes.dredd_cases import CK_SUFFIX, Case, cases_of, recipes_in
from circlekit.recipes.load import load_recipe
from circlekit.recipes.rules.rule import RuleBlock
from circlekit.rewrite import Rewrite
from circlekit.rewrite.base import Context, Pass

NEAR_MISS_RULE = "unchanged()"
"""The rule that makes a recipe a near miss: the pass must not change its model."""


class PassTestError(CirclekitError, AssertionError):
    """A pass violates a rule of its recipes, or a requirement for all passes."""


def check_pass(
    tested: type[Pass] | str,
    recipes: str | Path | Sequence[str | Path],
    *,
    with_litert: bool = True,
) -> None:
    """Test a pass with its recipes; raise PassTestError, which names every recipe that fails, with reasons.

    ``tested``: the class of the pass, or its name.
    ``recipes``: the text of a recipe (``.ck``), the path of a file or folder, or a sequence of these.  In a
    folder and its subfolders, the files ``NAME.ck`` and ``NAME-CONDITION.ck`` are used, where NAME is the
    name of the pass.  A str that contains ``{`` is the text of a recipe; give such a path as a Path.
    ``with_litert``: whether to compare with LiteRT; without effect if LiteRT is not installed.

    A recipe with the rule ``unchanged()`` is a near miss, all others are positives.  At least one positive is
    required, and, unless ``has_conditions`` of the pass is False, at least one near miss.  A recipe without
    ``passes(...)`` in its rules is run with the tested pass alone.  For each recipe, the following must hold:

    - its rules hold; ``refused("...")`` holds if a refusal of the pass contains this text;
    - a positive changes the model, a near miss does not;
    - a near miss of a Rewrite has an operator that the last line of its picture ``before`` names;
    - the inputs and outputs keep their names, dtypes and shapes, unless a pass that changed the model
      declares that it changes the interface;
    - the result is valid, and its shapes can be inferred;
    - a second run of the passes changes nothing.

    The following must also hold, unless a pass that changed the model declares that it changes values or the
    interface:

    - the model and the result, both written to files and read back, have equal outputs on seeded inputs
      (normal, boundary, zero and others; with 1, 2 and larger sizes for unknown dimensions);
    - LiteRT gives the same outputs;
    - if LiteRT runs the model, and the result is a TFLite model, LiteRT also runs the result.

    If LiteRT does not run a model, for example because LiteRT lacks an operator, only circlekit runs it.
    Raise FileError, FormatError or ParseError at once for a recipe that cannot be read, or whose syntax or
    rules are wrong, and RewriteError for an unknown pass, or a class without a name.  Other mistakes in a
    recipe, such as an unknown operator, are among the failures of PassTestError.
    """
    __tracebackhide__ = True  # pytest shows the place of the call, not this function
    kind = _checked(tested)
    name = kind.name
    failures: list[str] = []
    positives, near_misses = 0, 0
    with tempfile.TemporaryDirectory(prefix="check-pass-") as folder:
        for case in _cases(name, recipes, Path(folder)):
            rules = case.rules()
            is_near_miss = any(rule.text.replace(" ", "") == NEAR_MISS_RULE for rule in rules.rules)
            positives += not is_near_miss
            near_misses += is_near_miss
            try:
                sentences = list(_failures(kind, case, rules, is_near_miss, with_litert))
                failures += [f"{case.name}: {sentence}" for sentence in sentences]
            except CirclekitError as error:
                failures.append(f"{case.name}: {error}")
    if not positives:
        failures.append(
            f"expected a recipe that shows what {name} rewrites; add one, such as {name}{CK_SUFFIX}"
        )
    if kind.has_conditions and not near_misses:
        expected = (
            f"one with the rule {NEAR_MISS_RULE} for each condition, such as {name}-CONDITION{CK_SUFFIX}"
        )
        alternative = "set has_conditions = False in a pass without conditions"
        failures.append(f"expected a near miss that {name} refuses; add {expected}, or {alternative}")
    if failures:
        raise PassTestError("\n".join(failures))


def _checked(tested: type[Pass] | str) -> type[Pass]:
    """Return the class of the pass ``tested``; raise RewriteError unless it is a named pass, or its name."""
    if isinstance(tested, str):
        return find_pass(tested)
    if not (isinstance(tested, type) and issubclass(tested, Pass)):
        raise RewriteError(f"expected the class of a pass, or its name, got {type(tested).__name__}")
    if not tested.name:
        raise RewriteError(
            f'{tested.__module__}.{tested.__name__}: expected a class with a name: name = "..."'
        )
    return tested


def _cases(name: str, recipes: str | Path | Sequence[str | Path], folder: Path) -> Iterator[Case]:
    """Yield the cases of all ``recipes`` for the pass ``name``; recipes given as text go into ``folder``."""
    for number, item in enumerate([recipes] if isinstance(recipes, str | Path) else recipes):
        if isinstance(item, str) and "{" in item:  # a text, not a path
            path = folder / f"{name}-{number}{CK_SUFFIX}"
            path.write_text(item, encoding="utf-8")
            yield from cases_of(path, passes=[name])
        elif item != "" and Path(item).is_dir():  # Path("") is the working directory
            for path in recipes_in(Path(item)):
                if path.stem == name or path.stem.startswith(f"{name}-"):
                    yield from cases_of(path, passes=[name])
        else:
            yield from cases_of(item, passes=[name])


def _failures(
    tested: type[Pass], case: Case, rules: RuleBlock, is_near_miss: bool, with_litert: bool
) -> Iterator[str]:
    """Run the passes of one recipe; yield a sentence for each rule or requirement that does not hold."""
    assert case.recipe is not None
    result = run_case(case, with_litert=with_litert)
    yield from result.failures
    if result.failures:
        return
    model = load_recipe(case.recipe)
    context = rules.context(model.format)
    if result.litert_refusal and result.litert and context.format == "tflite":
        yield f"LiteRT runs the model before the pass, but not after it: {result.litert_refusal}"
    yield from _requirement_failures(tested, model, rules, context, is_near_miss)


def _requirement_failures(
    tested: type[Pass], model: Model, rules: RuleBlock, context: Context, is_near_miss: bool
) -> Iterator[str]:
    """Run the passes again; yield a sentence for each violated requirement that ``run_case`` does not check.

    ``model``: that of the recipe, which is changed.  ``context``: for the passes; it gets their refusals.
    """
    passes = select_passes(rules.names, format=context.format)
    context.refusals = []
    context.partial_matches = is_near_miss  # one operator of the picture is enough for a near miss
    original = clone(model)
    changes = sum(record.changes for record in run_passes(model, passes, context))
    unequal = difference(model, original)
    if is_near_miss and (changes or unequal):
        made = counted(changes, "change")
        yield f"expected no change, got {made}: {unequal or 'the result equals the model'}"
    refuses = any(refusal.pass_name == tested.name for refusal in context.refusals)
    if is_near_miss and issubclass(tested, Rewrite) and not changes and not refuses:
        yield f"expected a near miss, got a model without the last operator of the picture of {tested.name}"
    if not is_near_miss and not changes:
        why = [refusal.sentence for refusal in context.refusals] or ["nothing matched"]
        yield f"expected a change, got none: {'; '.join(dict.fromkeys(why))}"
    check_shapes(model)
    after_first_run = clone(model)
    changed = [record.name for record in run_passes(model, passes, context) if record.changes]
    unequal = difference(model, after_first_run)
    if changed or unequal is not None:
        yield f"a second run still changes the model: {', '.join(changed) or unequal}"
