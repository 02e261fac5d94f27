# SPDX-License-Identifier: Apache-2.0
"""Optimize a model in memory, or from one file to another."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any, BinaryIO

from circlekit.api.models import FilePath, ModelFile, check_output_path, read, target_format
from circlekit.api.optimization import Optimization
from circlekit.api.options import Options, checked_options
from circlekit.api.structure_checks import blaming_model, check_structure
from circlekit.equivalence.data_files.tensor_files import write_record
from circlekit.errors import FileError, names_in
from circlekit.interp.evaluate import Inputs
from circlekit.io.origin import NO_ORIGIN, Origin
from circlekit.io.write.encoded_file import Encoded
from circlekit.io.write.file_growth import explain_growth
from circlekit.io.write.save import check_format, encoded, write
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model, check_model
from circlekit.ir.resources.progress import progress
from circlekit.passes.engine.model_summary import summarize
from circlekit.passes.engine.optimization_report import Report
from circlekit.passes.engine.origin_tables import add_profile
from circlekit.passes.engine.pass_settings import checked_settings
from circlekit.passes.engine.pipeline_file import Pipeline
from circlekit.targets.target_choice import TargetChoice


def optimize(
    model: Model,
    passes: str | Iterable[str] | Pipeline = "O1",
    verify: bool = False,
    record: FilePath | None = None,
    explain: str | None = None,
    disable: Iterable[str] = (),
    format: str | None = None,
    bisect: FilePath | None = None,
    settings: Mapping[str, Any] | None = None,
    inputs: Inputs | FilePath | None = None,
    target: TargetChoice = None,
) -> Report:
    """Optimize ``model`` in place and return a report of what was done.

    ``passes``: names of passes and pipelines, in the order to run them, or a Pipeline from ``read_pipeline``.
    ``verify``: run the model before the passes and after each pass that changed the model.  If outputs differ
    after a pass, raise EquivalenceError and leave ``model`` as this pass made it.
    ``record``: the path of a directory to which the compared values are written at the end; after an error,
    nothing is written.  Implies ``verify``.
    ``explain``: the name of a pass whose rewrites and near misses are reported, or ``all``.
    ``disable``: names of passes to leave out.
    ``format``: the format in which the model will be written, circle or tflite; None: that of the model.
    ``bisect``: the path of a file.  If a rewrite is wrong, the error names that rewrite, and the smallest
    model that shows the fault is written to the file.  Implies ``verify``.
    ``settings``: {name of an option of a pass: value}; a string is parsed as on the command line.
    ``inputs``: the inputs on which to verify, see ``compare``; implies ``verify``.
    ``target``: names of the runtimes that have to run the model, separated by commas.  The default is litert
    for tflite, and luci (ONE's interpreter) for circle; ``none``: no restriction.  After the last pass,
    operators that a named target lacks are replaced, if possible; for the default target they are not.  A
    rewrite is refused if a target runs the old operators, but can run neither a new operator nor those that
    would replace this new operator.  For a named target, a rewrite is also refused if the target lacks a new
    operator, and more operators than before would be written.
    If outputs are verified, raise EquivalenceError for an operator that a target cannot run, although it was
    made from operators that the target ran.

    Before any work, raise RewriteError for a name that is neither a pass nor a pipeline, or a wrong setting;
    UnsupportedError for an unknown target or format; FileError, FormatError or LimitError if ``record``,
    ``bisect`` or the file of a setting is unusable.  If outputs are to be verified, raise the errors of
    ``compare`` if ``inputs`` are wrong or the model cannot run.
    During the work, raise RewriteError if a setting does not fit the model, and ShapeError if a pass sets a
    shape that an input or operator cannot have (such as a batch of 1 for a SLICE that takes 2).  Raise
    ModelError if passes are to run and an operator reads a value that a later operator produces.  A model
    that breaks another structural or shape rule is an error (ModelError) only if a pass fails on it, or if
    outputs are verified.  But ``convert`` checks all rules first, and raises errors (unless
    ``Options.validate`` is False).
    """
    check_model(model)
    started = time.monotonic()
    if not isinstance(passes, Pipeline):
        passes = Pipeline(names_in("a pass", passes))
    options = Options(
        passes.passes,
        [*passes.disable, *names_in("a pass", disable)],
        verify,
        record,
        explain,
        bisect=bisect,
        settings={**passes.settings, **checked_settings(settings)},
        validate=False,  # an invalid model is an error only if a pass fails (``blaming_model``)
        inputs=inputs,
        target=target,
    )
    check_format(format or model.format)
    work = Optimization(model, checked_options(options), format or model.format)
    with blaming_model(model), work.bisecting():
        report = work.run_passes()
        # ``work.watch`` knows the targets, and finds the operators that they cannot run
        if work.watch.targets.legalized:
            work.legalize(model, report, model.source)
        report.after = summarize(model, planner=work.watch.planner)
        work.watch.conclude(report, model)
    work.conclude(report, started)
    if record is not None and work.verifier is not None:
        write_record(record, model, work.verifier)
    return report


def convert(
    source: ModelFile,
    target: FilePath | BinaryIO,
    options: Options | None = None,
    format: str | None = None,
    *,
    is_strict: bool = True,
) -> Report:
    """Read a model, optimize it, write it, and return a report; its ``after`` describes the written model.

    ``source``: a path, the bytes of a file, or a file object opened in binary mode.
    ``target``: where to write: a path, or a stream opened in binary mode.
    ``options``: if None, no pass runs.  Then only operators that the format lacks are replaced, and a few
    that its default runtime is known to run wrongly or not at all.
    ``format``: the format to write.  None: for a path, the format that its extension names; for a stream, the
    format of the input.
    ``is_strict``: whether to raise FileError if the extension of ``target`` names another format than
    ``format``.

    If nothing of a model file changes, not even the format, the output is a copy of it, byte for byte (unless
    reading lost something, about which there was a warning).  Options and paths are checked before any work.
    Raise ModelError if the model breaks a structural rule, ShapeError if it breaks a shape rule; and the
    errors of ``load``, ``optimize`` and ``save``.  On an error the file ``target`` stays as it was.  An error
    that a stream raises passes through; the stream may have got a part of the model.
    """
    started = time.monotonic()
    if isinstance(target, str | os.PathLike):
        target_name = os.fspath(target)
        if is_strict or format is None:
            format = target_format(target, format)
        check_format(format)
        check_output_path(target)
    elif not hasattr(target, "write"):
        raise FileError(f"cannot write to {type(target).__name__}: expected a path or a binary file object")
    elif hasattr(target, "encoding"):  # only text streams have one
        raise FileError("the stream to write is opened in text mode; open it with mode 'wb'")
    else:
        target_name = str(getattr(target, "name", "<stream>"))
        check_format(format or "circle")  # None is valid, too
    options = checked_options(options or Options())
    progress().begin("reading the model")
    model, content = read(source)
    format = format or model.format
    epochs = _epochs(model)
    file_size = None if content is None else len(content)
    work, legal, report = _convert(model, options, format, target_name, file_size)
    if work.verifier is not None and options.record is not None:
        write_record(options.record, legal, work.verifier)
    origin: Origin = model.extra.get("origin") or NO_ORIGIN
    may_copy = model.format == format and origin.is_complete and not options.profile
    # ``changes`` counts what passes did; the epochs also show what legalization did
    is_unchanged = work.is_round_trip or (not report.changes and _epochs(legal) == epochs)
    if content is not None and may_copy and is_unchanged:
        report.unchanged = True
        sources = [] if origin.source is None else [origin.source]
        file = Encoded(skeleton=content, payloads=[], sources=sources)  # the bytes of the input file
    else:
        file = encoded(legal, format)
    if content is not None:
        report.growth = explain_growth(origin, len(content), file)
    report.source, report.target = str(model.source), target_name
    report.after = summarize(legal, write(file, target, model.source), work.watch.planner)
    report.after.format = format
    work.conclude(report, started)
    return report


def convert_model(model: Model, options: Options, format: str) -> tuple[Model, Report]:
    """Optimize ``model`` in place; return (a copy as ``convert`` would write it, the report).

    ``options``: ``record`` must be None, because no compared values are written.
    """
    check_model(model)
    check_format(format)
    started = time.monotonic()
    work, legal, report = _convert(model, checked_options(options), format, model.source, file_size=None)
    report.after = summarize(legal, planner=work.watch.planner)
    report.after.format = format
    work.conclude(report, started)
    return legal, report


def _convert(
    model: Model, options: Options, format: str, target_name: str | None, file_size: int | None
) -> tuple[Optimization, Model, Report]:
    """Optimize ``model`` in place; return (the optimization, a copy legalized for ``format``, the report).

    ``target_name``: the name of the file to write, for messages, None if there is none.  ``file_size``: the
    size in bytes of the file of ``model``, None if it is unknown.
    """
    if options.validate:
        check_structure(model)
    work = Optimization(model, options, format)
    # ``blaming_model`` looks for the fault in the model; a model that was checked above has none
    guard = nullcontext() if options.validate else blaming_model(model)
    with guard, work.bisecting():
        report = work.run_passes(file_size)
        legal = clone(model)
        work.legalize(legal, report, target_name)
        work.watch.conclude(report, legal)
    if options.profile:
        add_profile(work.original, legal)
    return work, legal, report


def _epochs(model: Model) -> list[int]:
    """Return the epoch of each graph: a number that grows with each change of the graph."""
    return [graph.epoch for graph in model.graphs]
