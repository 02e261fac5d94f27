# SPDX-License-Identifier: Apache-2.0
"""One dredd test: a recipe, passes, rules, and the values before and after, by way of files.

The files of a test, all of which ``run_case`` leaves in its folder:

    NAME.circle or .tflite        the recipe, cooked
    NAME.opt.circle or .tflite    what the passes made of it
    input.h5, expected.h5         seeded inputs, and the outputs before
    opt.expected.h5               the outputs of the second file, after it was read back
    boundary/, zero/, ...         the same three for other inputs
"""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from circlekit.equivalence import hdf5, litert
from circlekit.equivalence.array_comparison import allowed_difference
from circlekit.equivalence.comparison import interface_differences, interface_of, weak_outputs
from circlekit.equivalence.hdf5_diff import compare_files
from circlekit.equivalence.recorded_values import EXPECTED, INPUT, OPTIMIZED
from circlekit.equivalence.reference_runs import Run, reference_runs
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.equivalence.verify import Verifier
from circlekit.errors import CirclekitError, EquivalenceError, ModelError, UnsupportedError
from circlekit.io.read.load import load
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import clone, difference
from circlekit.ir.text import print_op
from circlekit.ir.value import Array
from circlekit.ir.verifier import check, verify
from circlekit.passes.engine.driver import run_passes
from circlekit.passes.engine.explain import explain_pass
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.registry import all_passes, pass_names, select_passes
from circlekit.passes.pipelines import PIPELINES
from circlekit.recipes.dredd_cases import Case
from circlekit.recipes.load import load_recipe
from circlekit.recipes.rules.rule import Subject
from circlekit.recipes.rules.rule_blocks import RuleBlock
from circlekit.rewrite.base import Context

PASSED, FAILED, MISSING = "passed", "failed", "missing"


@dataclass
class Result:
    """What came of one case.

    ``failures``: what went wrong, at least one where ``status`` is failed.  ``missing``: passes that do not
    exist.  ``notes``: what was not compared, and why.  ``before``, ``after``: numbers of operators.
    """

    name: str
    passes: tuple[str, ...] = ()
    failures: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    before: int | None = None
    after: int | None = None
    rules: int = 0
    compared: int = 0
    litert: int = 0
    seconds: float = 0.0

    @property
    def status(self) -> str:
        return FAILED if self.failures else MISSING if self.missing else PASSED


def run_case(case: Case, folder: str | Path | None = None, with_litert: bool = True) -> Result:
    """Run one test; whatever goes wrong is in the result.  ``folder`` keeps the files, None does not."""
    result = Result(case.name, case.passes)
    start = time.perf_counter()
    try:
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="dredd-") as place:
                _Test(case, result, Path(place), with_litert).run()
        else:
            _Test(case, result, Path(folder), with_litert).run()
    except CirclekitError as error:
        result.failures.append(str(error))
    except Exception:  # a test that breaks must not break the others; what broke is ours
        result.failures.append(f"internal error: {traceback.format_exc()}")
    result.seconds = time.perf_counter() - start
    return result


class _Test:
    """The steps of one test, in order."""

    def __init__(self, case: Case, result: Result, folder: Path, with_litert: bool) -> None:
        self.case = case
        self.result = result
        self.folder = folder
        self.with_litert = with_litert and litert.is_available()
        self.runs: list[Run] = []

    def run(self) -> None:
        rules = self.case.rules()
        self.result.passes = rules.passes
        known = {*all_passes(), *PIPELINES}
        names = [name.replace("-", "_") for name in rules.passes]
        self.result.missing = [name for name in names if name not in known]
        base = self.cook()
        unsound = [str(finding) for finding in verify(base)]
        if unsound:
            self.result.notes.append(f"not run, the model is unsound: {'; '.join(unsound)}")
            if names:
                self.result.failures.append("passes take no model that is unsound")
            return
        self.record(base)
        if self.with_litert:
            self.second_opinion(base, "before", rules.tolerance)
        if not self.result.missing:
            self.optimize(base, names, rules)

    # -- before --------------------------------------------------------------------------------

    def cook(self) -> Model:
        assert self.case.recipe is not None  # or there were no rules
        cooked = load_recipe(self.case.recipe)
        base = self.write(
            cooked, f"{self.case.name}.{cooked.format}", is_whole=all(graph.table for graph in cooked.graphs)
        )
        self.result.before = sum(1 for _ in base.ops())
        return base

    def write(self, model: Model, name: str, is_whole: bool) -> Model:
        """The model as it is read back; an error where it is not what was written.

        ``is_whole``: the order of its values is that of a file, and nothing of them is left unused.
        """
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = to_bytes(model)
        write_file(path, [data], durable=False)
        back = load(path)
        found = difference(model, back) if is_whole else difference(_unlisted(model), _unlisted(back))
        if found is not None:
            raise ModelError(f"{name} is not what was written: {found}")
        if to_bytes(back) != data:
            raise ModelError(f"{name} is written with other bytes after it was read")
        return back

    def record(self, base: Model) -> None:
        """Run the recipe on every seeded set of inputs."""
        try:
            self.runs, notes = reference_runs(base)
        except UnsupportedError as error:
            self.result.notes.append(f"values not compared: {error.message}")
            return
        except CirclekitError as error:
            if not self.with_litert or not self.fails_everywhere(base):
                raise
            self.result.notes.append(f"values not compared: the model does not run: {error.message}")
            return
        self.result.notes += [*notes, *weak_outputs(base.main, [run.outputs for run in self.runs])]
        for run in self.runs:
            given = list(run.inputs.values()) if isinstance(run.inputs, Mapping) else run.inputs
            self.keep(run, INPUT, [v.name for v in base.main.inputs], given)
            self.keep(run, EXPECTED, [v.name for v in base.main.outputs], run.outputs)

    def fails_everywhere(self, base: Model) -> bool:
        """Whether LiteRT refuses the model too; not so where it has nothing to say."""
        try:
            litert.run_litert(litert.tflite_of(base), make_inputs(base.main, InputSet("normal")))
        except EquivalenceError:
            return True
        except UnsupportedError:
            return False
        return False

    def keep(self, run: Run, name: str, names: Sequence[str], arrays: Sequence[Array]) -> None:
        folder = self.place(run)
        folder.mkdir(exist_ok=True)
        numbers = [(n, a) for n, a in zip(names, arrays, strict=True) if not litert.is_text(a)]
        write_file(folder / name, [hdf5.encode(numbers)], durable=False)

    def place(self, run: Run) -> Path:
        return self.folder if run is self.runs[0] else self.folder / run.kind

    # -- after ---------------------------------------------------------------------------------

    def optimize(self, base: Model, names: Sequence[str], rules: RuleBlock) -> None:
        fmt = rules.format or base.format
        model = clone(base)
        passes = pass_names(names, format=fmt)
        context = Context(fmt, settings=rules.settings)
        records = run_passes(model, select_passes(names, format=fmt), context)
        check(model)
        name = f"{self.case.name}.opt.{fmt}"
        legal = legalize(model, fmt)
        legal.format = fmt
        back = self.write(legal, name, is_whole=False)
        check(back)
        self.result.after = sum(1 for _ in back.ops())
        by_design = [record.name for record in records if record.changes and _may_change(record.name)]
        if not by_design:
            changed = interface_differences(interface_of(base), interface_of(back))
            self.result.failures += [f"the interface changed: {sentence}" for sentence in changed]
        changes = sum(record.changes for record in records)
        subject = Subject(str(self.folder / name), back, changes, lambda: _refusals(model, passes, context))
        self.check_rules(subject, rules)
        if by_design:
            self.result.notes.append(
                f"values not compared: {', '.join(by_design)} changed the model, as meant"
            )
            return
        self.compare(base, back, passes, context, rules.tolerance)
        if self.with_litert and changes:
            self.second_opinion(back, "after", rules.tolerance)

    def check_rules(self, subject: Subject, rules: RuleBlock) -> None:
        outcomes = [rule.check(subject) for rule in rules.rules]
        self.result.rules = len(outcomes)
        failed = [str(outcome) for outcome in outcomes if not outcome.holds]
        if failed:
            self.result.failures.append("\n".join([*failed, *_lines(subject.model)]))

    def compare(
        self, base: Model, back: Model, passes: Sequence[str], context: Context, tolerance: float | None
    ) -> None:
        """The values of the written model, file against file, by name."""
        names = [value.name for value in back.main.outputs]
        allowed = _relative(tolerance)
        for run in self.runs:
            outputs = run.again(back)
            self.keep(run, OPTIMIZED, names, outputs)
            folder = self.place(run)
            entries = compare_files(folder / EXPECTED, folder / OPTIMIZED, allowed)
            self.result.compared += len(outputs)
            wrong = [f"on {run.kind} inputs {entry}" for entry in entries if not entry.equal]
            wrong += _other_texts(names, run, outputs)
            if wrong:
                self.result.failures += [*wrong, *_blame(base, passes, context)]
                return

    def second_opinion(self, model: Model, when: str, tolerance: float | None) -> None:
        """LiteRT on the TFLite form of ``model``, on normal inputs."""
        if not self.runs:
            return
        run = self.runs[0]
        given = list(run.inputs.values()) if isinstance(run.inputs, Mapping) else list(run.inputs)
        try:
            theirs = litert.run_litert(litert.tflite_of(model), given)
        except UnsupportedError as error:
            self.result.notes.append(f"not run by LiteRT {when}: {error.message}")
            return
        names = [value.name for value in model.main.outputs]
        found = litert.differences(names, run.outputs, theirs, tolerance)
        self.result.failures += [f"{when} the passes, {sentence}" for sentence in found]
        self.result.litert += len(theirs)


def _may_change(name: str) -> bool:
    """Whether a pass is meant to change values or the interface."""
    return all_passes()[name].changes_interface or all_passes()[name].changes_values


def _other_texts(names: Sequence[str], run: Run, outputs: Sequence[Array]) -> list[str]:
    """Outputs of strings, which the files of numbers do not hold, where they changed."""
    return [
        f"on {run.kind} inputs {name}: was {before.tolist()}, is {after.tolist()}"
        for name, before, after in zip(names, run.outputs, outputs, strict=True)
        if litert.is_text(before) and before.tolist() != after.tolist()
    ]


def _unlisted(model: Model) -> Model:
    """A copy without the file's list of values."""
    copy = clone(model)
    for graph in copy.graphs:
        graph.table = []
        graph.extra.pop("unused", None)
    return copy


def _relative(tolerance: float | None) -> Callable[[Array], float]:
    """The allowed difference by the reference: the usual one, or this part of its largest magnitude."""
    if tolerance is None:
        return allowed_difference

    def allowed(reference: Array) -> float:
        if reference.dtype.kind != "f":
            return 0.0
        finite = np.abs(reference[np.isfinite(reference)])
        return tolerance * float(finite.max(initial=0.0))

    return allowed


def _refusals(model: Model, passes: Sequence[str], context: Context) -> list[str]:
    found = [explain_pass(model, name, context.format, context.settings) for name in passes]
    return [refusal.sentence for refusals in found for refusal in refusals]


def _blame(base: Model, passes: Sequence[str], context: Context) -> list[str]:
    """The pass that changed a value, where one did it alone."""
    verifier = Verifier(base)

    def check_values(name: str, changes: int) -> None:
        if changes:
            verifier.check(model, name)

    model = clone(base)
    try:
        run_passes(model, passes, context, check_values)
    except EquivalenceError as error:
        return [error.message]
    return []


def _lines(model: Model) -> list[str]:
    """The model as text for a person: constants by name."""
    lines = []
    for graph in model.graphs:
        inputs, outputs = (", ".join(f"%{v.name}" for v in side) for side in (graph.inputs, graph.outputs))
        lines += [
            f"graph {graph.name}({inputs}) -> {outputs} {{",
            *(f"  {print_op(op)}" for op in graph),
            "}",
        ]
    return lines
