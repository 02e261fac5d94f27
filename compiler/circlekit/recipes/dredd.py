# SPDX-License-Identifier: Apache-2.0
"""Run one dredd test: run passes on the model of a recipe, check rules, and compare values before and after.

A recipe is a model as text.  If ``run_case`` gets a folder, it leaves these files there, or fewer if the test
ends early:

    NAME.circle or .tflite        the model of the recipe
    NAME.opt.circle or .tflite    the model after the passes
    input.h5, expected.h5         seeded inputs, and the outputs before the passes
    opt.expected.h5               the outputs of NAME.opt, after it was read back
    boundary/, zero/, ...         the same three .h5 files for the other sets of seeded inputs
"""

from __future__ import annotations

import re
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from circlekit.equivalence import litert
from circlekit.equivalence.data_files import hdf5
from circlekit.equivalence.data_files.tensor_files import EXPECTED, INPUT, OPTIMIZED
from circlekit.equivalence.litert_undefined import undefined
from circlekit.equivalence.model_comparison import (
    compare_outputs,
    interface_differences,
    interface_of,
    weak_outputs,
)
from circlekit.equivalence.reference_runs import Run, outputs_on, reference_runs, rounding_error
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.equivalence.verify import Verifier
from circlekit.errors import CirclekitError, EquivalenceError, ModelError, UnsupportedError
from circlekit.io.file_map import translated
from circlekit.io.read.load import load
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.text import print_op
from circlekit.ir.value import Array
from circlekit.ir.verifier import check, verify
from circlekit.passes.engine.explain import explain_pass
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import all_passes, pass_names, select_passes
from circlekit.recipes.dredd_cases import Case
from circlekit.recipes.load import load_recipe
from circlekit.recipes.rules.rule import RuleBlock, Subject
from circlekit.rewrite.base import Context
from circlekit.targets.target import find_target

PASSED, FAILED = "passed", "failed"

_PLACE = re.compile(r"^(?:.*?:\d+:\d+|\S+\.(?:ck|recipe|rule|lst|tsv)): ")
"""Matches the place at the beginning of an error message: a file, in most cases with line and column."""


@dataclass
class Result:
    """The result of one test.

    ``name``: the name of the case.  ``passes``: the names of its passes and pipelines.
    ``failures``: a text for each failure; empty if the test passed.
    ``notes``: what was not compared, and why.
    ``before``, ``after``: the number of operators before and after the passes; None: the test ended earlier.
    ``rules``: the number of rules that were checked.
    ``compared``: the number of outputs after the passes that were compared with those before.
    ``litert``: the number of arrays that were compared with LiteRT.
    ``litert_refusal``: why LiteRT did not run the model after the passes; "" if it did, or was not asked to.
    ``seconds``: how long the test took.
    """

    name: str
    passes: tuple[str, ...] = ()
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    before: int | None = None
    after: int | None = None
    rules: int = 0
    compared: int = 0
    litert: int = 0
    litert_refusal: str = ""
    seconds: float = field(default=0.0, compare=False)

    @property
    def reason(self) -> str:
        """The first line of the first failure, without the place at its beginning; "" without failures."""
        first = self.failures[0].partition("\n")[0] if self.failures else ""
        return _PLACE.sub("", first)

    @property
    def status(self) -> str:
        """PASSED or FAILED."""
        return FAILED if self.failures else PASSED


def run_case(case: Case, folder: str | Path | None = None, with_litert: bool = True) -> Result:
    """Run one test.  Nothing is raised: every error becomes a failure of the result.

    ``folder``: where the files of the test are left; None: no files are left.
    ``with_litert``: compare with LiteRT, if it is installed.
    """
    result, started = Result(case.name, case.passes), time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="dredd-") as temporary:
            _Test(case, result, Path(folder or temporary), with_litert, folder is not None).run()
    except CirclekitError as error:
        result.failures.append(str(error))
    except Exception as error:  # a defect of circlekit fails this test and must not stop the others
        sentence = f"{type(error).__name__}: {error}"
        result.failures.append(f"internal error: {sentence}\n{traceback.format_exc()}")
    result.seconds = time.monotonic() - started
    return result


class _Test:
    """Runs one test step by step and fills ``result``.

    ``folder``: where files are written.  ``keeps_values``: whether inputs and outputs are written, too.
    ``base``: the model before the passes, read back from its file.
    ``runs``: its runs, one for each set of inputs, the normal inputs first; empty if it does not run.
    """

    def __init__(
        self, case: Case, result: Result, folder: Path, with_litert: bool, keeps_values: bool
    ) -> None:
        self.case = case
        self.result = result
        self.folder = folder
        self.with_litert = with_litert and litert.is_available()
        self.keeps_values = keeps_values
        self.runs: list[Run] = []

    def run(self) -> None:
        """Run the test.  A CirclekitError that it raises is a failure of the test, too."""
        rules = self.case.rules()
        self.result.passes = rules.passes
        assert self.case.recipe is not None  # rules() raises otherwise
        model = load_recipe(self.case.recipe)
        with_tables = all(graph.table for graph in model.graphs)  # the recipe states the order of values
        base = self.write(model, f"{self.case.name}.{model.format}", with_tables)
        self.base = base
        self.result.before = sum(1 for _ in base.ops())
        findings = [str(finding) for finding in verify(base)]
        if findings:
            self.result.notes.append(f"not run, the model is invalid: {'; '.join(findings)}")
            if rules.passes:
                self.result.failures.append("passes cannot run on an invalid model")
            return
        self.run_reference(base)
        if self.with_litert:
            self.compare_with_litert(base, "before", rules.tolerance)
        self.optimize(base, rules)

    # -- before the passes ---------------------------------------------------------------------

    def write(self, model: Model, name: str, with_tables: bool) -> Model:
        """Write ``model`` to the file ``name``; return the model that is read back from it.

        Raise ModelError if the two models differ, or if the model read back would be written as other bytes.
        ``with_tables``: whether the order of values and the unused values are compared, too.
        """
        path = self.folder / name
        with translated(path.parent, "made"):  # turns an OSError into a FileError
            path.parent.mkdir(parents=True, exist_ok=True)
        data = to_bytes(model)
        write_file(path, [data], durable=False)
        back = load(path)
        compared = (model, back) if with_tables else (_without_tables(model), _without_tables(back))
        unequal = difference(*compared)
        if unequal is not None:
            raise ModelError(f"the model read back from {name} differs from the one written: {unequal}")
        if to_bytes(back) != data:
            raise ModelError(f"the model read back from {name} has other bytes when it is written again")
        return back

    def run_reference(self, base: Model) -> None:
        """Run the recipe's model on all sets of seeded inputs, and keep the runs in ``runs``.

        An UnsupportedError only becomes a note.  Any other error, such as an axis out of range, is a fault of
        the model or of our kernels.  Such an error becomes a note if LiteRT also refuses the model
        (``_litert_refuses``), or if LiteRT is not used; otherwise, the error is raised.
        """
        try:
            self.runs, notes = reference_runs(base)
        except UnsupportedError as error:
            self.result.notes.append(f"values not compared: {error.message}")
            return
        except CirclekitError as error:
            if self.with_litert and not _litert_refuses(base):
                raise
            unknown = "" if self.with_litert else " (LiteRT was not asked whether it runs there)"
            self.result.notes.append(f"values not compared: the model does not run{unknown}: {error.message}")
            return
        self.result.notes += [*notes, *weak_outputs(base.main, [run.outputs for run in self.runs])]
        for run in self.runs:
            self.keep(run, INPUT, [v.name for v in base.main.inputs], run.arrays)
            self.keep(run, EXPECTED, [v.name for v in base.main.outputs], run.outputs)

    def keep(self, run: Run, name: str, names: Sequence[str], arrays: Sequence[Array]) -> None:
        """Write ``arrays``, inputs or outputs of ``run``, to the HDF5 file ``name``; leave out strings.

        ``names``: the names of ``arrays``.  Do nothing unless ``keeps_values``.
        """
        if not self.keeps_values:
            return
        folder = self.folder if run is self.runs[0] else self.folder / run.label  # the first: normal inputs
        folder.mkdir(exist_ok=True)
        numbers = [(n, a) for n, a in zip(names, arrays, strict=True) if not litert.is_text(a)]
        write_file(folder / name, [hdf5.encode(numbers)], durable=False)

    # -- after the passes ----------------------------------------------------------------------

    def optimize(self, base: Model, rules: RuleBlock) -> None:
        """Run the passes on a copy of ``base``; check ``rules``, and compare values with ``base``."""
        model, context = clone(base), rules.context(base.format)
        fmt = context.format
        passes = pass_names(rules.names, format=fmt)
        records = run_passes(model, select_passes(rules.names, format=fmt), context)
        check(model)
        name = f"{self.case.name}.opt.{fmt}"
        legal = legalize(model, fmt)
        legal.format = fmt
        back = self.write(legal, name, with_tables=False)
        check(back)
        self.result.after = sum(1 for _ in back.ops())
        changes = sum(record.changes for record in records)
        subject = Subject(str(self.folder / name), back, changes, lambda: _refusals(model, passes, context))
        self.result.rules = len(rules.rules)
        failed = [failure for rule in rules.rules if (failure := rule.failure(subject))]
        if failed:
            self.result.failures.append("\n".join([*failed, *_lines(subject.model)]))
        effective = [all_passes()[record.name] for record in records if record.changes]
        if not any(kind.changes_interface for kind in effective):
            changed = interface_differences(interface_of(base), interface_of(back))
            self.result.failures += [f"the interface changed: {sentence}" for sentence in changed]
        by_design = [kind.name for kind in effective if kind.changes_interface or kind.changes_values]
        if by_design:
            passes_text = ", ".join(by_design)
            self.result.notes.append(f"values not compared: {passes_text} changed the model by design")
            return
        if any(kind.drops_state for kind in effective):
            self.runs = [run for run in self.runs if not run.earlier]
        wrong = self.compare(base, back, rules.tolerance)
        if wrong:
            self.result.failures += [*wrong, *_guilty_pass(base, passes, context)]
        if self.with_litert and changes:
            self.compare_with_litert(back, "after", rules.tolerance)

    def compare(self, base: Model, model: Model, tolerance: float | None) -> list[str]:
        """Run ``model`` on the inputs of ``runs`` and compare its outputs, by name, with those of ``base``.

        ``base``: the model before the passes.  Stop at the first set of inputs with differences; return a
        sentence for each output that differs.
        """
        names, expected = ([value.name for value in m.main.outputs] for m in (model, base))
        for run, outputs in zip(self.runs, outputs_on(self.runs, model), strict=True):
            self.keep(run, OPTIMIZED, names, outputs)
            self.result.compared += len(outputs)
            after = dict(zip(names, outputs, strict=True))
            before = dict(zip(expected, run.outputs, strict=True))
            outcomes = compare_outputs(run.label, before, after, fraction=tolerance)
            if not all(outcome.equal for outcome in outcomes):
                # measuring the rounding runs the model again, so it is not done before
                outcomes = compare_outputs(run.label, before, after, self.rounding(base, run), tolerance)
            wrong = [outcome for outcome in outcomes if not outcome.equal]
            if wrong:
                return sorted(
                    f"values of %{x.name} on {x.inputs} inputs: {x.reason or x.worst}" for x in wrong
                )
        return []

    @staticmethod
    def rounding(base: Model, run: Run) -> dict[str, float]:
        """Return {output: the change that rounding may make if large terms cancel in the output, else 0}.

        Where it is 0, only the tolerance (``array_comparison.allowed_difference``) allows for rounding.
        """
        names = [value.name for value in base.main.outputs]
        return dict(zip(names, rounding_error(base, run, limit=0.0), strict=True))

    def compare_with_litert(self, model: Model, when: str, tolerance: float | None) -> None:
        """Compare LiteRT's outputs of ``model`` on normal inputs with circlekit's outputs before the passes.

        ``when``: ``before`` or ``after``, for messages.
        There is only a note if LiteRT lacks an operator or leaves results undefined.  Another error of LiteRT
        is raised in these two cases, and is a note otherwise:

        - ONE's interpreter cannot run ``model`` either.
        - ``model`` is a TFLite model after the passes, and LiteRT ran the model before the passes.
        """
        if not self.runs:
            return
        run = self.runs[0]
        try:
            litert_outputs = litert.run_model(model, run.arrays)
        except (UnsupportedError, EquivalenceError) as error:
            ran_before = self.result.litert > 0  # outputs were compared
            failed = isinstance(error, EquivalenceError)
            if when == "after":
                self.result.litert_refusal = error.message
            if failed and ((ran_before and model.format == "tflite") or not _runs_in_one(model)):
                raise
            other = ", but by ONE's interpreter" if failed else ""
            self.result.notes.append(f"not run by LiteRT {when}{other}: {error.message}")
            return
        names = [value.name for value in model.main.outputs]
        sentences = litert.differences(names, run.outputs, litert_outputs, tolerance)
        if sentences:
            noise = list(self.rounding(self.base, run).values())
            sentences = litert.differences(names, run.outputs, litert_outputs, tolerance, noise)
        self.result.failures += [f"{when} the passes, {sentence}" for sentence in sentences]
        self.result.litert += len(litert_outputs)


def _litert_refuses(model: Model) -> bool:
    """Return whether LiteRT has all operators of ``model`` but fails, or may leave results undefined."""
    if undefined(model) is not None:
        return True
    try:
        litert.run_model(model, make_inputs(model.main, InputSet("normal")))
    except CirclekitError as error:
        return isinstance(error, EquivalenceError)
    return False


def _runs_in_one(model: Model) -> bool:
    """Return whether ONE's interpreter has all operators of ``model``, according to its target table."""
    interpreter = find_target("luci")
    return all(interpreter.refusal(op) is None for op in model.ops())


def _without_tables(model: Model) -> Model:
    """Return a copy of ``model`` without the file's order of values and without unused values."""
    copy = clone(model)
    for graph in copy.graphs:
        graph.table = []
        graph.extra.pop("unused", None)
    return copy


def _refusals(model: Model, passes: Sequence[str], context: Context) -> list[str]:
    """Return the sentences with which the passes refuse operators of ``model``, the optimized model."""
    explanations = [explain_pass(model, name, context.format, context.settings) for name in passes]
    return [refusal.sentence for refusals in explanations for refusal in refusals]


def _guilty_pass(base: Model, passes: Sequence[str], context: Context) -> list[str]:
    """Run the passes again, and compare values after each pass.

    Return [a sentence that names the first pass after which a value differs]; [] if there is none.
    """
    verifier, model = Verifier(base), clone(base)
    try:
        run_passes(model, passes, context, lambda name, _: verifier.check(model, name))
    except EquivalenceError as error:
        return [error.message]
    return []


def _lines(model: Model) -> list[str]:
    """Return the lines of ``model`` in the text form; large constants appear as names, without numbers."""
    lines = []
    for graph in model.graphs:
        inputs, outputs = (", ".join(f"%{v.name}" for v in side) for side in (graph.inputs, graph.outputs))
        ops = [f"  {print_op(op)}" for op in graph]
        lines += [f"graph {graph.name}({inputs}) -> {outputs} {{", *ops, "}"]
    return lines
