# SPDX-License-Identifier: Apache-2.0
"""What is asked for: passes, their settings, and what else to do to a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from circlekit.api.models import FilePath
from circlekit.errors import ParseError, RewriteError
from circlekit.io.files import map_file
from circlekit.ir.deferred import deferred
from circlekit.passes import all_passes
from circlekit.passes.fuse.batchnorm.training import FREEZE
from circlekit.passes.names import check_settings, find_pass, pass_names
from circlekit.passes.pipeline_file import Pipeline, parse_pipeline

if TYPE_CHECKING:
    from circlekit.equivalence.recorded_values import check_folder
else:
    check_folder = deferred("circlekit.equivalence.recorded_values", "check_folder")


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

    def announce(self, step: str) -> None:
        """Tell whoever asked that ``step`` starts."""
        if self.progress is not None:
            self.progress(step)


def read_pipeline(path: FilePath) -> Pipeline:
    """A pipeline from a TOML file: ``passes``, ``disable``, ``[settings]``; see passes/pipeline_file.py.

    FileError, ParseError, or RewriteError for names that there are not.
    """
    try:
        text = bytes(map_file(path)).decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"{os.fspath(path)} is no text in UTF-8: {error}") from None
    return parse_pipeline(text, os.fspath(path))


def as_pipeline(
    passes: str | Iterable[str] | Pipeline, disable: Collection[str], settings: Mapping[str, Any]
) -> Pipeline:
    """Everything that was asked for, together."""
    if not isinstance(passes, Pipeline):
        return Pipeline((passes,) if isinstance(passes, str) else tuple(passes), tuple(disable), settings)
    return Pipeline(passes.passes, (*passes.disable, *disable), {**passes.settings, **settings})


def check_options(options: Options) -> None:
    """Refuse names that do not exist, and a place that cannot take a record, before the work."""
    names = pass_names(options.passes, options.disable)
    check_settings(options.settings)
    for name in options.settings:
        owner = next(item.name for item in all_passes().values() if any(o.name == name for o in item.options))
        if owner not in names:
            raise RewriteError(f"{name} is a setting of {owner}, which is not asked for")
    if options.explain is not None:
        find_pass(options.explain)
    if options.record is not None:
        check_folder(options.record)


def with_data(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """``settings`` with the records of a file in the place of its path."""
    data = settings.get(FREEZE)
    if not isinstance(data, str | os.PathLike):
        return settings
    h5: Any = import_module("circlekit.equivalence.hdf5")  # h5py is slow to start, and mostly not wanted
    return {**settings, FREEZE: h5.read_records(data)}
