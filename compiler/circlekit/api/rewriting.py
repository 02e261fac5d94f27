# SPDX-License-Identifier: Apache-2.0
"""Optimize a model in memory, or from one file to another."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from circlekit.api.models import (
    FilePath,
    ModelFile,
    check_model,
    check_target,
    read,
    records_of,
    target_format,
)
from circlekit.api.target_watch import TargetWatch
from circlekit.equivalence.bisect import find_culprit
from circlekit.equivalence.data_files.tensor_files import check_folder, write_record
from circlekit.equivalence.verify import Inputs, Records, Verifier, watch
from circlekit.errors import CirclekitError, EquivalenceError, ModelError, ParseError, RewriteError
from circlekit.io.file_map import map_file
from circlekit.io.origin import NO_ORIGIN, Origin
from circlekit.io.write.file_growth import explain_growth
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.flatbuffer_encoder import Encoded
from circlekit.io.write.save import check_format, encoded, write
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.resources.progress import progress
from circlekit.ir.shape_inference import check_shapes, settle_ranks
from circlekit.ir.text.printer import print_model
from circlekit.ir.verifier import check_order, verify
from circlekit.passes.engine.driver import run_passes
from circlekit.passes.engine.explain import ALL_PASSES, explain_op, explain_passes, names_of_op
from circlekit.passes.engine.legalize import legalize_in_place
from circlekit.passes.engine.optimization_report import Report, summarize
from circlekit.passes.engine.origin_tables import add_profile
from circlekit.passes.engine.registry import (
    Pipeline,
    all_options,
    all_passes,
    check_settings,
    find_pass,
    only_pipelines,
    parse_pipeline,
    pass_names,
    select_passes,
)
from circlekit.passes.engine.run_for_target import target_obstacle
from circlekit.passes.engine.written_form import rules_of_targets
from circlekit.rewrite.base import Context
from circlekit.targets.findings import TargetChoice, choose_targets


@dataclass(frozen=True)
class Options:
    """What ``convert`` does to a model.  Fields without a description are as for ``optimize``.

    ``validate``: check the structure of the model and the shapes of its operators before and after the work.
    ``profile``: write ONE's tables of origins (which operators each one was made from) into the metadata.
    ``keep_activations``: keep a fused activation that ONE's runtime would ignore.
    ``explain_op``: operators of the result to explain, as for ``circlekit.explain_op``.
    """

    passes: Sequence[str] = ()
    disable: Collection[str] = ()
    verify: bool = False
    record: FilePath | None = None
    explain: str | None = None
    bisect: FilePath | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    validate: bool = True
    profile: bool = False
    keep_activations: bool = False
    inputs: Inputs | FilePath | None = None
    explain_op: str | None = None
    target: TargetChoice = None


def read_pipeline(path: FilePath) -> Pipeline:
    """Read a pipeline from a TOML file, in the form that ``parse_pipeline`` describes.

    Raise FileError if it cannot be read, ParseError for invalid text, RewriteError for unknown names.
    """
    try:
        text = bytes(map_file(path)).decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"{os.fspath(path)}: expected text in UTF-8: {error}") from None
    return parse_pipeline(text, os.fspath(path))


def optimize(
    model: Model,
    passes: str | Iterable[str] | Pipeline = "O1",
    verify: bool = False,
    record: FilePath | None = None,
    explain: str | None = None,
    disable: Collection[str] = (),
    format: str | None = None,
    bisect: FilePath | None = None,
    settings: Mapping[str, Any] | None = None,
    inputs: Inputs | FilePath | None = None,
    target: TargetChoice = None,
) -> Report:
    """Optimize ``model`` in place and return a report of what was done.

    ``passes``: names of passes and pipelines, run in that order, or a Pipeline from ``read_pipeline``.
    ``verify``: run the model before and after every pass that changed it; if the outputs differ, raise
    EquivalenceError and leave ``model`` as that pass made it.
    ``record``: a directory for the compared values; implies ``verify``.
    ``explain``: a pass whose rewrites and near misses to report, or ``all``.
    ``disable``: passes to leave out.
    ``format``: what the model will be written as (circle, tflite); by default the format it was read from.
    ``bisect``: where to write the smallest model that shows a fault, if there is one; implies ``verify``.
    ``settings``: values of the options of passes, by name.
    ``inputs``: what to verify on, as for ``compare``; implies ``verify``.
    ``target``: the runtimes that have to run the model (names, separated by commas): no rewrite makes an
    operator that one of them cannot run of operators that they can.  By default litert for tflite and luci,
    ONE's interpreter, for circle; ``none`` for no restriction.  For targets that are named, operators that
    one of them lacks are replaced at the end, where that is possible.

    Raise, before any work, RewriteError for a name that is neither a pass nor a pipeline, UnsupportedError
    for an unknown target, FileError if ``record`` is unusable; later ModelError if an operator reads a value
    that a later one produces.  An operator whose shape rule refuses its operands is not changed; ``convert``
    raises ShapeError for it.
    """
    check_model(model)
    started = time.monotonic()
    if not isinstance(passes, Pipeline):
        passes = Pipeline([passes] if isinstance(passes, str) else list(passes))
    options = Options(
        passes.passes,
        [*passes.disable, *disable],
        verify,
        record,
        explain,
        bisect=bisect,
        settings={**passes.settings, **(settings or {})},
        validate=False,
        inputs=inputs,
        target=target,
    )
    check_format(format or model.format)
    options = checked_options(options)
    original = clone(model) if bisect is not None else model
    records = records_of(model, options.inputs)
    verifier = _verifier(model, options, records)
    special = any(find_pass(name).makes_special_forms for name in pass_names(options.passes))
    target_watch = TargetWatch(model, options.target, format or model.format, special)
    with _bisecting(original, options, target_watch, records):
        report = _optimize(model, options, target_watch, verifier)
        if target_watch.targets.legalized:
            _legalize(model, target_watch, verifier, report)
        target_watch.conclude(report, model)
    _conclude(report, verifier, started)
    if record is not None and verifier is not None:
        write_record(record, model, verifier)
    return report


def convert(
    source: ModelFile,
    target: FilePath | BinaryIO,
    options: Options | None = None,
    format: str | None = None,
    *,
    is_strict: bool = True,
) -> Report:
    """Read a model, optimize it, write it, and return a report, whose ``after`` describes the written model.

    ``target``: a path, or a stream opened in binary mode.  ``options``: by default no pass runs and only the
    format changes.  ``format``: by default that of the extension, for a stream that of the input.  If nothing
    changes, not even the format, the output is a copy of the input.  ``is_strict``: refuse an extension that
    is not that of ``format``.  Options and paths are checked before any
    work; on an error nothing is written.
    """
    started = time.monotonic()
    if isinstance(target, str | os.PathLike):
        target_name = os.fspath(target)
        format = target_format(target, format) if is_strict or format is None else format
        check_target(target)
    else:
        target_name = str(getattr(target, "name", "<stream>"))
        check_format(format or "circle")
    options = checked_options(options or Options())
    progress().begin("reading the model")
    model, content = read(source)
    format = format or model.format
    epochs = _epochs(model)
    done = _convert(model, options, format, target_name, None if content is None else len(content))
    report = done.report
    if done.verifier is not None and options.record is not None:
        write_record(options.record, done.model, done.verifier)
    origin: Origin = model.extra.get("origin") or NO_ORIGIN
    is_same = model.format == format and origin.is_complete and not options.profile
    if content is not None and is_same and not report.changes and _epochs(done.model) == epochs:
        report.unchanged = True
        file = Encoded(content, [], len(content), origin.source)
    else:
        file = encoded(done.model, format)
    if content is not None:
        report.growth = explain_growth(origin, len(content), file)
    report.source, report.target = str(model.source), target_name
    report.after = summarize(done.model, write(file, target, model.source), done.planner)
    report.after.format = format
    _conclude(report, done.verifier, started)
    return report


def convert_model(model: Model, options: Options, format: str) -> tuple[Model, Report]:
    """Return the model that ``convert`` would write for ``model``, which changes, and the report.

    ``options``: without ``record``.
    """
    check_model(model)
    check_format(format)
    started = time.monotonic()
    done = _convert(model, checked_options(options), format, str(model.source), None)
    done.report.after = summarize(done.model, planner=done.planner)
    done.report.after.format = format
    _conclude(done.report, done.verifier, started)
    return done.model, done.report


@dataclass
class _Converted:
    """A ``model`` that is ready to be written; how it was made and verified; who plans its memory."""

    model: Model
    report: Report
    verifier: Verifier | None
    planner: Any


def _convert(
    model: Model, options: Options, format: str, target_name: str, file_size: int | None
) -> _Converted:
    """Optimize ``model`` in place, and return a copy with operators that ``format`` has."""
    name = str(model.source)
    if options.validate:
        check_structure(model, name)
    records = records_of(model, options.inputs)
    special = any(find_pass(name).makes_special_forms for name in pass_names(options.passes))
    target_watch = TargetWatch(model, options.target, format, special)
    verifier = _verifier(model, options, records)
    original = clone(model) if options.bisect is not None or options.profile else model
    guard = nullcontext() if options.validate else blaming_model(model, name)
    with guard, _bisecting(original, options, target_watch, records):
        report = _optimize(model, options, target_watch, verifier, file_size)
        keep = {"fused_activations"} if options.keep_activations else ()
        legal = clone(model)
        report.legalizations = legalize_in_place(legal, format, keep, target_watch.targets.legalized)
        if options.validate:
            check_structure(legal, target_name)
        if verifier is not None:
            progress().begin(f"verifying the legalization for {format}")
            verifier.check(legal, f"the legalization for {format}")
        target_watch.conclude(report, legal)
    if options.profile:
        add_profile(original, legal)
    return _Converted(legal, report, verifier, target_watch.planner)


def _legalize(model: Model, target: TargetWatch, verifier: Verifier | None, report: Report) -> None:
    """Replace in ``model`` the operators that the targets which the user named lack."""
    report.legalizations = legalize_in_place(model, target.format, targets=target.targets.legalized)
    if report.legalizations and verifier is not None:
        verifier.check(model, "the legalization for the target")
    if report.legalizations:
        report.after = summarize(model, planner=target.planner)


def _epochs(model: Model) -> list[int]:
    return [graph.epoch for graph in model.graphs]


def _conclude(report: Report, verifier: Verifier | None, started: float) -> None:
    """Add the result of ``verifier`` and the time since ``started`` to a report."""
    report.differences = [] if verifier is None else verifier.differences()
    report.seconds = time.monotonic() - started


@contextmanager
def _bisecting(
    model: Model, options: Options, target: TargetWatch, records: Records | None
) -> Iterator[None]:
    """Replace an error in the block by one that names the wrong rewrite, and write the smallest faulty model.

    ``options.bisect``: the path of that model.  If it is None, or if no pass is found to be wrong, the error
    stays as it is.
    """
    try:
        yield
    except Exception as error:  # a wrong pass may raise anything
        if options.bisect is None:
            raise
        progress().begin("bisecting")
        culprit = find_culprit(
            model,
            select_passes(options.passes, options.disable, target.format),
            target.format,
            settings=options.settings,
            exact=only_pipelines(options.passes),
            records=records,
            targets=target.targets,
        )
        if culprit is None:
            raise
        write_file(options.bisect, [print_model(culprit.model).encode()])
        count, path = len(culprit.model.main), os.fspath(options.bisect)
        inputs = "" if records is None else ", on the given inputs or on seeded ones,"
        note = f"wrote a model of {count} operators that shows it{inputs} to {path}"
        raise EquivalenceError(str(culprit), note) from error


def _verifier(model: Model, options: Options, records: Records | None) -> Verifier | None:
    if not options.verify and options.record is None and options.bisect is None and records is None:
        return None
    progress().begin("running the original")
    return Verifier(model, records)


def _optimize(
    model: Model,
    options: Options,
    target: TargetWatch,
    verifier: Verifier | None,
    file_size: int | None = None,
) -> Report:
    """Run the passes of ``options`` on ``model``, each verified by ``verifier``, and return the report."""
    format = target.format

    def check_values(name: str, changes: int) -> None:
        if verifier is not None and changes:
            progress().begin(f"verifying {name}")
            watch(verifier, model, name)

    def announce(name: str) -> None:
        progress().begin(f"running {name}")

    before = summarize(model, file_size, target.planner)
    passes = select_passes(options.passes, options.disable, format)
    if passes and options.validate:
        settle_ranks(model)
    elif passes:
        check_order(model)
    removed = set[str]().union(*map(names_of_op, model.ops())) if options.explain_op is not None else ()
    rules = rules_of_targets(target.targets, format)
    exact = only_pipelines(options.passes)
    context = Context(format, settings=options.settings, exact=exact, target=rules)
    records = run_passes(model, passes, context, check_values, announce)
    report = Report(before, summarize(model, planner=target.planner), records)
    if verifier is not None:
        report.verified, report.notes = True, verifier.notes
    changes = {record.name: record.changes for record in records}
    for name, item in all_passes().items():
        report.notes += item.notes(model, context, changes.get(name))
        report.notes += filter(None, [target_obstacle(name, context)])
    if options.explain is not None:
        report.explanations = explain_passes(
            model, options.explain, format, options.settings, report.changes, target.targets
        )
    if options.explain_op is not None:
        report.op_explanations = explain_op(
            model, options.explain_op, format, options.settings, removed, target.targets
        )
        if not report.op_explanations:
            report.notes.append(f"no operator {options.explain_op} is left to explain")
    return report


# -- checks ------------------------------------------------------------------------------------


def checked_options(options: Options) -> Options:
    """Check ``options``, and return them with paths of record files in the settings replaced by their arrays.

    Raise RewriteError for an unknown name or a setting of a pass that does not run, UnsupportedError for an
    unknown target, FileError for an unusable path.
    """
    names = pass_names(options.passes, options.disable)
    check_settings(options.settings)
    passes = all_passes()
    for setting in options.settings:
        owner = next(n for n, item in passes.items() if any(o.name == setting for o in item.options))
        if owner not in names:
            raise RewriteError(
                f"{setting} is a setting of the pass {owner}, which is not run; add {owner} to the passes"
            )
    if options.explain not in (None, ALL_PASSES):
        find_pass(options.explain)
    if options.record is not None:
        check_folder(options.record)
    choose_targets(options.target, "")
    settings = dict(options.settings)
    for name, option in (all_options() if settings else {}).items():
        if option.records and isinstance(settings.get(name), str | os.PathLike):
            from circlekit.equivalence.data_files.hdf5 import read_records  # h5py is slow to import

            settings[name] = read_records(settings[name])
    return replace(options, settings=settings)


def check_structure(model: Model, name: str) -> None:
    """Raise ModelError if ``model`` breaks a structural rule, ShapeError if it breaks a shape rule.

    ``name``: the name of the model in messages.
    """
    findings = verify(model)
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise ModelError(f"{name}: {findings[0]}{more}", *map(str, findings[1:]))
    check_shapes(model)


@contextmanager
def blaming_model(model: Model, name: str) -> Iterator[None]:
    """Turn any exception in the block into a ModelError if ``model`` breaks a structural or shape rule.

    Passes rely on these rules, so a model that breaks one may lead to any exception.  ``name``: the name of
    the model in messages.
    """
    fault = ""
    try:
        check_structure(model, name)
    except CirclekitError as unsound:
        fault = unsound.message
    try:
        yield
    except Exception as error:
        if not fault or isinstance(error, CirclekitError | MemoryError):
            raise
        raise ModelError(f"the passes failed on an invalid model: {fault}") from error
