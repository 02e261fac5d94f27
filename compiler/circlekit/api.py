# SPDX-License-Identifier: Apache-2.0
"""The public functions, and the way of a file through them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from circlekit.equivalence.bisect import find_culprit
from circlekit.equivalence.compare import Comparison
from circlekit.equivalence.record import check_folder, write_record
from circlekit.equivalence.runs import Inputs
from circlekit.equivalence.verify import Verifier, compare_models, watch
from circlekit.errors import EquivalenceError, FileError, ModelError, ParseError
from circlekit.interp.run import run as run_model
from circlekit.io.files import map_file, write_file
from circlekit.io.load import load_bytes
from circlekit.io.save import check_format, format_of
from circlekit.io.save import save as save_file
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.inference import check_shapes
from circlekit.ir.text import print_model
from circlekit.ir.value import Array
from circlekit.ir.verify import verify
from circlekit.passes.explain import explain_pass
from circlekit.passes.fuse.freeze_batchnorm import FreezeBatchNorm
from circlekit.passes.fuse.training import training_notes
from circlekit.passes.optimize import check_settings, find_pass, only_pipelines, pass_names, run_passes
from circlekit.passes.pipeline_file import Pipeline, parse_pipeline
from circlekit.passes.profile import add_profile
from circlekit.passes.replace.legalize import legalize
from circlekit.passes.replace.split_activation import SplitTransposeConvActivation
from circlekit.passes.report import Report, summarize
from circlekit.recipes.load import recipe_in
from circlekit.rewrite.base import Context

FilePath = str | os.PathLike[str]

_TEXT_PROBE = 4096


def load(path: FilePath) -> Model:
    """The model in a file: circle, TFLite, or a recipe in either language, told apart by what is in it.

    Constants are read-only views of a map of the file.  FileError where it cannot be read, FormatError or
    ParseError where it holds no valid model.
    """
    return _read(path)[0]


def _read(path: FilePath) -> tuple[Model, int | None]:
    """A model, and its size in bytes; None for the size of a text, which is not comparable."""
    name = os.fspath(path)
    content = map_file(path)
    text = _is_text(content)
    model = recipe_in(content, path) if text else load_bytes(content, name)
    model.source = name
    return model, None if text else len(content)


def _is_text(content: memoryview) -> bool:
    """Whether this starts like text: not empty, and no control characters but tabs and line ends."""
    probe = bytes(content[:_TEXT_PROBE])
    return bool(probe) and all(byte >= 32 or byte in b"\t\n\r\f" for byte in probe)


def save(model: Model, path: FilePath, format: str | None = None) -> None:
    """Write ``model``; ``format`` (circle, tflite) follows from the extension, or else from the model.

    What the format lacks is replaced by what it has, in the file only.  The file appears whole or not at
    all.  UnsupportedError for what cannot be replaced, FileError where the file cannot be written.
    """
    target = format or format_of(path) or model.format
    save_file(legalize(model, target), path, target)


def run(model: Model, inputs: Inputs) -> list[Array]:
    """What the main graph computes: one new array for each of its outputs, in its order.

    ``inputs``: arrays in the graph's order, or by the names of its inputs, with its dtypes (quantized
    integers stay as they are) and its shapes; an unknown dimension takes any size.  ShapeError where they
    do not fit, UnsupportedError, with the place, for an operator, a dtype or a form without a kernel.
    """
    return run_model(model, inputs)


def compare(a: Model, b: Model, inputs: Inputs | None = None) -> Comparison:
    """Compare two models by interface and value; ``a`` is the reference.

    ``inputs``: as for ``run``; None for seeded ones: normal, boundary and zero.  Integers must be equal,
    floats to 1e-5 (float32) of the reference's largest magnitude, or to what rounding makes in a model that
    amplifies it.  The result is true where all are equal, and prints what was compared.  The errors are
    those of ``run``.
    """
    return compare_models(a, b, inputs)


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
) -> Report:
    """Rewrite ``model`` in place; ``passes``: names of passes and pipelines, run in that order.

    It may be a Pipeline, too, which ``read_pipeline`` reads; ``settings``: what passes let a user set.

    ``verify``: run the model before and after every pass that changed it; EquivalenceError where it
    computes something else, and then ``model`` is left as that pass made it.  ``record``: a directory that
    keeps what was compared, which it implies.  ``explain``: a pass whose near misses to report.
    ``format``: what the model will be written as; by default what it was.  ``bisect``: where to write the
    smallest model that shows what went wrong, if anything does; it implies ``verify``.  RewriteError,
    before any work, for a name that is neither a pass nor a pipeline.
    """
    asked = _as_pipeline(passes, disable, settings or {})
    options = Options(
        asked.passes, asked.disable, verify, record, explain, bisect=bisect, settings=asked.settings
    )
    check_format(format or model.format)
    _check(options)
    original = clone(model) if bisect is not None else model
    verifier = _verifier(model, options)
    with _bisecting(original, options, format or model.format):
        report = _optimize(model, options, format or model.format, verifier)
    if record is not None and verifier is not None:
        write_record(record, model, verifier)
    return report


def read_pipeline(path: FilePath) -> Pipeline:
    """A pipeline from a TOML file: ``passes``, ``disable``, ``[settings]``; see passes/pipeline_file.py.

    FileError, ParseError, or RewriteError for names that there are not.
    """
    try:
        text = bytes(map_file(path)).decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"{os.fspath(path)} is no text in UTF-8: {error}") from None
    return parse_pipeline(text, os.fspath(path))


def _as_pipeline(
    passes: str | Iterable[str] | Pipeline, disable: Collection[str], settings: Mapping[str, Any]
) -> Pipeline:
    """Everything that was asked for, together."""
    if not isinstance(passes, Pipeline):
        return Pipeline((passes,) if isinstance(passes, str) else tuple(passes), tuple(disable), settings)
    return Pipeline(passes.passes, (*passes.disable, *disable), {**passes.settings, **settings})


@dataclass(frozen=True)
class Options:
    """What ``optimize`` and ``convert`` do to a model; the meanings are those of ``optimize``.

    ``validate``: look at the structure of the model and the shapes of its operators before the work.
    ``keep_activations``: a fused activation stays where ONE's runtime does not apply it.  ``profile``: write
    ONE's tables of what each operator was made from into the metadata.
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
    progress: Callable[[str], None] | None = None
    """Called with the name of each step that starts."""


def convert(source: FilePath, target: FilePath, options: Options, format: str | None = None) -> Report:
    """Read a model, rewrite it, and write it as ``format``, which the extension says by default.

    What can be refused without work is refused first, and on any error nothing is written.  The report's
    ``after`` is the model as it is in the file.
    """
    format = _target_format(target, format)
    _check_target(target)
    _check(options)
    _announce(options, "read")
    model, size = _read(source)
    if options.validate:
        _check_structure(model, os.fspath(source))
    verifier = _verifier(model, options)
    original = clone(model) if options.bisect is not None or options.profile else model
    with _bisecting(original, options, format):
        report = _optimize(model, options, format, verifier, size)
        _announce(options, "write")
        legal = legalize(model, format, {SplitTransposeConvActivation} if options.keep_activations else ())
        if options.validate:
            _check_structure(legal, os.fspath(target))
        if verifier is not None:
            verifier.check(legal, f"the replacement of what {format} lacks")
    if verifier is not None and options.record is not None:
        write_record(options.record, legal, verifier)
    if options.profile:
        add_profile(original, legal)
    save_file(legal, target, format)
    report.after = summarize(legal, Path(target).stat().st_size)
    return report


def _check(options: Options) -> None:
    """Refuse names that do not exist, and a place that cannot take a record, before the work."""
    pass_names(options.passes, options.disable)
    check_settings(options.settings)
    if options.explain is not None:
        find_pass(options.explain)
    if options.record is not None:
        check_folder(options.record)


def _check_structure(model: Model, name: str) -> None:
    """ModelError with what is unsound: no pass is run on such a model, and none is written.

    ShapeError, with the place, where operators do not fit what they read or what the model says of them.
    """
    findings = verify(model)
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise ModelError(f"{name}: {findings[0]}{more}", *map(str, findings[1:]))
    check_shapes(model)


def _target_format(target: FilePath, format: str | None) -> str:
    named = format_of(target)
    if format is None and named is None:
        raise FileError(f"{os.fspath(target)}: the format does not follow from the name (.circle, .tflite)")
    if format is not None and named is not None and format != named:
        raise FileError(f"{os.fspath(target)} is the name of a {named} file, {format} was to be written")
    return str(format or named)


def _check_target(target: FilePath) -> None:
    """FileError for a target that cannot be written, before the work is done."""
    path = Path(target)
    if path.is_dir():
        raise FileError(f"{path} is a directory, the name of a file is wanted")
    if not path.absolute().parent.is_dir():
        raise FileError(f"{path}: the directory {path.absolute().parent} does not exist")


@contextmanager
def _bisecting(model: Model, options: Options, format: str) -> Iterator[None]:
    """Where the work inside goes wrong on ``model``: find out why, write that, and say so instead."""
    try:
        yield
    except Exception as error:  # a pass may go wrong in any way
        if options.bisect is None:
            raise
        _announce(options, "bisect")
        names = pass_names(options.passes, options.disable, format)
        culprit = find_culprit(
            model, names, format, settings=_with_data(options.settings), exact=only_pipelines(options.passes)
        )
        if culprit is None:
            raise
        write_file(options.bisect, [print_model(culprit.model).encode()])
        found = f"{len(culprit.model.main)} operators that show it are in {os.fspath(options.bisect)}"
        raise EquivalenceError(str(culprit), found) from error


def _verifier(model: Model, options: Options) -> Verifier | None:
    if not options.verify and options.record is None and options.bisect is None:
        return None
    _announce(options, "run the original")
    return Verifier(model)


def _optimize(
    model: Model, options: Options, format: str, verifier: Verifier | None, file_size: int | None = None
) -> Report:
    def prove(name: str, changes: int) -> None:
        if verifier is not None and changes:
            _announce(options, f"verify {name}")
            watch(verifier, model, name)

    def announce(name: str) -> None:
        _announce(options, name)

    before = summarize(model, file_size)
    names = pass_names(options.passes, options.disable, format)
    context = Context(format, settings=_with_data(options.settings), exact=only_pipelines(options.passes))
    records = run_passes(model, names, context, prove, announce)
    report = Report(before, summarize(model), records)
    if verifier is not None:
        report.verified, report.notes = True, verifier.notes
    report.notes = [*report.notes, *training_notes(model)]
    if options.explain is not None:
        _announce(options, f"explain {options.explain}")
        report.refusals = explain_pass(model, options.explain, format, options.settings)
    return report


def _with_data(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """``settings`` with the records of a file in the place of its path."""
    data = settings.get(FreezeBatchNorm.name)
    if not isinstance(data, str | os.PathLike):
        return settings
    h5: Any = import_module("circlekit.equivalence.h5")  # h5py is slow to start, and mostly not wanted
    return {**settings, FreezeBatchNorm.name: h5.read_records(data)}


def _announce(options: Options, step: str) -> None:
    if options.progress is not None:
        options.progress(step)
