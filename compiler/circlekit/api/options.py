# SPDX-License-Identifier: Apache-2.0
"""The options of an optimization."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from circlekit.api.models import FilePath
from circlekit.equivalence.recorded_values import check_folder
from circlekit.errors import ParseError, RewriteError
from circlekit.io.file_map import map_file
from circlekit.passes.engine.pipeline_file import Pipeline, parse_pipeline
from circlekit.passes.engine.registry import all_options, all_passes, check_settings, find_pass, pass_names


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
    """Read a pipeline from a TOML file, in the form that passes/engine/pipeline_file.py describes.

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
