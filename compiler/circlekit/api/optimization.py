# SPDX-License-Identifier: Apache-2.0
"""The steps of an optimization: run passes, compare values, legalize, find a wrong rewrite, report."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from circlekit.api.models import records_of
from circlekit.api.options import Options
from circlekit.api.structure_checks import check_structure
from circlekit.api.target_watch import TargetWatch
from circlekit.equivalence.bisect import find_culprit
from circlekit.equivalence.verify import Verifier
from circlekit.equivalence.verify import watch as verify_after_pass
from circlekit.errors import EquivalenceError, counted
from circlekit.io.write.file_writer import write_file
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.resources.progress import progress
from circlekit.ir.shape_inference import settle_ranks
from circlekit.ir.snapshot import Snapshot
from circlekit.ir.text.printer import print_model
from circlekit.ir.verifier import check_order
from circlekit.passes.engine.explain import explain_op, explain_passes, names_of_op
from circlekit.passes.engine.legalize import legalize_in_place
from circlekit.passes.engine.model_summary import summarize
from circlekit.passes.engine.optimization_report import Report
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import all_passes, find_pass, only_pipelines, pass_names, select_passes
from circlekit.passes.engine.run_for_target import target_obstacle
from circlekit.passes.engine.written_form import rules_of_targets
from circlekit.passes.pipelines import Phase
from circlekit.rewrite.base import Context


class Optimization:
    """The optimization of one model.

    The functions in ``rewriting`` call ``run_passes``, ``legalize`` and ``conclude`` in this order, the first
    two in a ``with`` block of ``bisecting``.  ``optimize`` calls ``legalize`` only if the user named targets.

    ``model``: the model, which changes in place.  ``options``: the result of ``checked_options``.
    ``format``: the format in which the model will be written.
    ``original``: a copy of the model before the work if the options need one, or the user named targets;
    otherwise ``model`` itself.
    ``verifier``: compares outputs with those of the original; None if nothing is verified.
    ``watch``: finds the operators that the targets cannot run, before and after the work.
    ``is_round_trip``: whether legalization has undone all changes of the passes, so that the model is as
    before, except for names of values.
    """

    def __init__(self, model: Model, options: Options, format: str) -> None:
        self.model, self.options, self.format = model, options, format
        self._records = records_of(model, options.inputs)
        special_forms = any(find_pass(name).makes_special_forms for name in pass_names(options.passes))
        if options.passes and not options.validate:
            check_order(model)  # the only structural rule without which passes might not end
        self.watch = TargetWatch(model, options.target, format, special_forms)
        self.verifier = self._new_verifier()
        has_targets = self.watch.targets.legalized is not None
        is_needed = options.bisect is not None or options.profile or has_targets
        self.original = clone(model) if is_needed else model
        self.is_round_trip = False

    def _new_verifier(self) -> Verifier | None:
        """Run the original model; return a verifier, or None if no option asks for verification."""
        options = self.options
        wanted = options.verify or options.record is not None or options.bisect is not None
        if not wanted and self._records is None:
            return None
        progress().begin("running the original")
        return Verifier(self.model, self._records)

    def run_passes(self, file_size: int | None = None) -> Report:
        """Run the passes, verify the model after each pass that changes it, and return the report.

        Raise EquivalenceError if a pass changes what it must keep (see ``equivalence.verify.watch``).
        The field ``after`` of the report is a placeholder, which the caller replaces when the model is final.
        ``file_size``: the size of the original file in bytes, None if it is unknown.
        """
        model, options = self.model, self.options
        before = summarize(model, file_size, self.watch.planner)
        passes, context = self._selected_passes(), self._new_context()
        if passes and options.validate:
            settle_ranks(model)  # the caller has found the structure valid
        is_asked = options.explain_op is not None
        original_names = set[str]().union(*map(names_of_op, model.ops())) if is_asked else ()
        pass_records = run_passes(model, passes, context, self._check_values, _announce)
        report = Report(before=before, after=before, passes=pass_records)
        if self.verifier is not None:
            report.verified, report.notes = True, self.verifier.notes
        changes = {record.name: record.changes for record in pass_records}
        for name, item in all_passes().items():  # a pass that did not run may have a note, too
            report.notes += item.notes(model, context, changes.get(name))
            report.notes += filter(None, [target_obstacle(name, context)])
        self._explain(report, original_names)
        return report

    def _selected_passes(self) -> list[Phase | str]:
        """Return the phases and passes to run."""
        return select_passes(self.options.passes, self.options.disable, self.format)

    def _new_context(self, is_legalized: bool = False) -> Context:
        """Return the context in which the passes run; ``is_legalized``: as for ``rules_of_targets``."""
        rules = rules_of_targets(self.watch.targets, self.format, is_legalized)
        settings, named = self.options.settings, self.options.passes
        return Context(self.format, settings=settings, exact=True, named=named, target=rules)

    def _check_values(self, name: str, changes: int) -> None:
        """Compare the outputs with those of the original after the pass ``name`` made ``changes`` changes."""
        if self.verifier is not None and changes:
            progress().begin(f"verifying {name}")
            verify_after_pass(self.verifier, self.model, name)

    def _explain(self, report: Report, original_names: Collection[str]) -> None:
        """Add to ``report`` the explanations for which the options ask.

        ``original_names``: codes, class names and result names of all operators before the passes ran; empty
        if no operator is to be explained.
        """
        options, targets = self.options, self.watch.targets
        if options.explain is not None:
            report.explanations = explain_passes(
                self.model, options.explain, self.format, options.settings, report.changes, targets
            )
        if options.explain_op is not None:
            report.op_explanations = explain_op(
                self.model, options.explain_op, self.format, options.settings, original_names, targets
            )
            if not report.op_explanations:
                report.notes.append(f"the optimized model has no operator {options.explain_op} to explain")

    def legalize(self, model: Model, report: Report, name: str | None) -> None:
        """Replace in ``model`` the operators that the format or a target of the user lacks; check the result.

        Operators that only a default target lacks stay, because the user did not name it; for one exception
        see ``legalize_in_place``.
        ``model``: the optimized model or a copy of it.  ``name``: its name in messages.  ``report``: gets the
        legalizations.
        """
        keep = {"fused_activations"} if self.options.keep_activations else ()
        targets = self.watch.targets.legalized  # None if the user named none
        report.legalizations = legalize_in_place(model, self.format, keep, targets)
        runs_pipelines = bool(self.options.passes) and only_pipelines(self.options.passes)
        if targets and report.legalizations and runs_pipelines:
            # in the first round, passes may make operators that the targets lack: these are legalized again,
            # and the operators that replace them may merge with their neighbors.  In the second round, passes
            # make no such operators.  Otherwise an early pass could undo a legalization, and a later pass
            # could not fuse its operators.
            for is_legalized in (False, True):
                self._merge_legalized(model, report, keep, is_legalized)
        if targets and report.legalizations and difference(self.original, model, with_names=False) is None:
            self.is_round_trip, report.legalizations = True, {}
            for record in report.passes:
                record.changes = 0
        if self.options.validate:
            check_structure(model, name)
        if self.verifier is not None:
            progress().begin(f"verifying the legalization for {self.format}")
            self.verifier.check(model, f"the legalization for {self.format}")

    def _merge_legalized(
        self, model: Model, report: Report, keep: Collection[str], is_legalized: bool
    ) -> None:
        """Run the pipelines once more on the legalized ``model``; keep the result if it is smaller.

        It is smaller if it has fewer operators, or as many operators and fewer values.  Legalization replaces
        one operator at a time.  The pipelines may merge the RESHAPEs that it inserts with neighboring
        operators, fuse an activation that it inserts, and merge equal constants.  After the pipelines, the
        model is legalized again.
        ``keep``: the legalizations to omit, as in ``legalize_in_place``.  ``is_legalized``: as for
        ``rules_of_targets``.
        """
        before, size = Snapshot(model), _size_of(model)
        pass_records = run_passes(model, self._selected_passes(), self._new_context(is_legalized))
        legalizations = legalize_in_place(model, self.format, keep, self.watch.targets.legalized)
        if _size_of(model) >= size:
            before.restore()
            return
        for record, more in zip(report.passes, pass_records, strict=True):
            record.changes += more.changes
        report.legalizations = dict(Counter(report.legalizations) + Counter(legalizations))

    def conclude(self, report: Report, started: float) -> None:
        """Add to ``report`` how far the outputs differ, and the time in seconds.

        ``started``: the result of ``time.monotonic()`` at the beginning.
        """
        report.differences = [] if self.verifier is None else self.verifier.differences()
        report.seconds = time.monotonic() - started

    @contextmanager
    def bisecting(self) -> Iterator[None]:
        """Return a context that replaces an error raised in it by an error that names the wrong rewrite.

        The smallest model that shows the fault is written to the file ``options.bisect``.  If
        ``options.bisect`` is None, or if no wrong rewrite is found, the error is raised unchanged.
        """
        try:
            yield
        except Exception as error:  # a wrong pass may raise anything
            if self.options.bisect is None:
                raise
            found = self._write_culprit(self.options.bisect)
            if found is None:
                raise
            raise found from error

    def _write_culprit(self, path: str | os.PathLike[str]) -> EquivalenceError | None:
        """Find the wrong rewrite; write the smallest model that shows it to ``path``.

        Return the error to raise; None if no wrong rewrite is found.
        """
        progress().begin("bisecting")
        culprit = find_culprit(
            self.original,
            select_passes(self.options.passes, self.options.disable, self.format),
            self.format,
            settings=self.options.settings,
            exact=True,
            named=self.options.passes,
            records=self._records,
            targets=self.watch.targets,
        )
        if culprit is None:
            return None
        write_file(path, [print_model(culprit.model).encode()])
        inputs = "" if self._records is None else ", on the given inputs or on seeded ones,"
        size = counted(len(culprit.model.main), "operator")
        note = f"wrote a model of {size} that shows it{inputs} to {os.fspath(path)}"
        return EquivalenceError(str(culprit), note)


def _size_of(model: Model) -> tuple[int, int]:
    """Return (the number of operators, the number of values), each of all graphs together."""
    return sum(map(len, model.graphs)), sum(sum(1 for _ in graph.values()) for graph in model.graphs)


def _announce(name: str) -> None:
    """Report that the pass ``name`` begins."""
    progress().begin(f"running {name}")
