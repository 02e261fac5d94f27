# SPDX-License-Identifier: Apache-2.0
"""The options of an optimization, and the checks before and after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from circlekit.api.models import FilePath
from circlekit.equivalence.tensor_files import check_folder
from circlekit.errors import CirclekitError, FileError, ModelError, ParseError, RewriteError
from circlekit.io.file_map import map_file, translated
from circlekit.io.write.file_writer import need_folder
from circlekit.io.write.save import format_of
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.verifier import verify
from circlekit.passes.engine.registry import (
    Pipeline,
    all_options,
    all_passes,
    check_settings,
    find_pass,
    parse_pipeline,
    pass_names,
)


@dataclass(frozen=True)
class Options:
    """What ``convert`` does to a model.  Fields without a description are as for ``optimize``.

    ``validate``: check the structure of the model and the shapes of its operators before and after the work.
    ``profile``: write into the metadata ONE's tables of which operators each operator was made from.
    ``keep_activations``: keep a fused activation that ONE's runtime would ignore.
    ``progress``: called with the name of each step that starts.
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

    def announce(self, step: str) -> None:
        """Report that ``step`` starts."""
        if self.progress is not None:
            self.progress(step)


def read_pipeline(path: FilePath) -> Pipeline:
    """Read a pipeline from a TOML file, in the form that ``parse_pipeline`` describes.

    FileError, ParseError, or RewriteError for names that do not exist.
    """
    try:
        text = bytes(map_file(path)).decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"{os.fspath(path)}: expected text in UTF-8: {error}") from None
    return parse_pipeline(text, os.fspath(path))


def as_pipeline(
    passes: str | Iterable[str] | Pipeline, disable: Collection[str], settings: Mapping[str, Any]
) -> Pipeline:
    """Combine the parameters of ``optimize`` into one Pipeline."""
    if not isinstance(passes, Pipeline):
        return Pipeline((passes,) if isinstance(passes, str) else tuple(passes), tuple(disable), settings)
    return Pipeline(passes.passes, (*passes.disable, *disable), {**passes.settings, **settings})


def check_options(options: Options) -> None:
    """RewriteError for unknown names and unused settings, FileError for an unusable record folder."""
    names = pass_names(options.passes, options.disable)
    check_settings(options.settings)
    known = all_passes()
    for setting in options.settings:
        owner = next(n for n, item in known.items() if any(o.name == setting for o in item.options))
        if owner not in names:
            raise RewriteError(
                f"{setting} is a setting of the pass {owner}, which is not run; add {owner} to the passes"
            )
    if options.explain is not None:
        find_pass(options.explain)
    if options.record is not None:
        check_folder(options.record)


def load_records(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace paths by the records in their files, for settings that are declared to take records."""
    found = dict(settings)
    for name, option in (all_options() if settings else {}).items():
        if option.records and isinstance(found.get(name), str | os.PathLike):
            from circlekit.equivalence.hdf5 import read_records  # h5py is slow to import

            found[name] = read_records(found[name])
    return found


def check_structure(model: Model, name: str) -> None:
    """ModelError if ``model`` breaks a structural rule, ShapeError if an operator does not fit its types.

    ``name``: of the model, for the message.
    """
    findings = verify(model)
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise ModelError(f"{name}: {findings[0]}{more}", *map(str, findings[1:]))
    check_shapes(model)


@contextmanager
def blaming_model(model: Model, name: str) -> Iterator[None]:
    """Turn any error of the work inside into a ModelError if ``model`` breaks a structural rule.

    Passes rely on these rules, so a model that breaks one may lead to any exception.
    """
    try:
        check_structure(model, name)
    except CirclekitError as unsound:
        fault = unsound.message
    else:
        yield
        return
    try:
        yield
    except (CirclekitError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(f"the passes failed on an invalid model: {fault}") from error


def target_format(target: FilePath, format: str | None) -> str:
    """Return the format to write: ``format``, or the one of the extension; FileError if they disagree."""
    if not os.fspath(target):
        raise FileError("a file without a name cannot be written")
    named = format_of(target)
    if format is None and named is None:
        raise FileError(f"{os.fspath(target)}: expected the extension .circle or .tflite, or a format")
    if format is not None and named is not None and format != named:
        raise FileError(f"{os.fspath(target)}: the extension is for {named}, but the format is {format}")
    return str(format or named)


def check_target(target: FilePath) -> None:
    """FileError for a path that cannot be written."""
    path = Path(target)
    with translated(path, "written"):
        if path.is_dir():
            raise FileError(f"expected the name of a file, {path} is a directory")
        need_folder(path)


def check_apart(source: FilePath, target: FilePath) -> None:
    """FileError if ``target`` is the file ``source`` itself, which must not be overwritten."""
    with translated(target, "written"):
        is_same = Path(source).exists() and Path(target).exists() and Path(source).samefile(target)
    if is_same:
        raise FileError(f"{os.fspath(target)} is the input model; choose another file to write")
