# SPDX-License-Identifier: Apache-2.0
"""The options of an optimization, and their checks before any work."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from circlekit.api.models import FilePath
from circlekit.equivalence.data_files.tensor_files import check_folder
from circlekit.errors import ParseError, RewriteError
from circlekit.interp.evaluate import Inputs
from circlekit.io.file_map import map_file
from circlekit.passes.engine.explain import ALL_PASSES
from circlekit.passes.engine.registry import (
    Pipeline,
    all_options,
    all_passes,
    check_settings,
    find_pass,
    parse_pipeline,
    pass_names,
)
from circlekit.targets.findings import TargetChoice, choose_targets


@dataclass(frozen=True)
class Options:
    """What ``convert`` does to a model.  Fields that are not described here are described at ``optimize``.

    ``validate``: check the structure of the model and the shapes of its operators before and after the work.
    ``profile``: write ONE's table of origins into the metadata: from which operators each operator was made.
    ``keep_activations``: keep a fused activation that ONE's runtime ignores; otherwise it is written as an
    operator of its own.
    ``explain_op``: the operators of the optimized model to explain; see ``which`` of ``explain_op``.
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


def checked_options(options: Options) -> Options:
    """Check ``options``; return them with records in ``settings`` in place of the files that hold them.

    A record is one array for each input of a model; some settings name an HDF5 file of records.

    Raise RewriteError for an unknown pass or setting, or for a setting of a pass that does not run;
    UnsupportedError for an unknown target, FileError for an unusable path.
    """
    names = pass_names(options.passes, options.disable)
    check_settings(options.settings)
    passes = all_passes()
    for setting in options.settings:
        owner = next(n for n, item in passes.items() if any(o.name == setting for o in item.options))
        if owner not in names:
            raise RewriteError(
                f"{setting} is a setting of the pass {owner}, which does not run; add {owner} to the passes"
            )
    if options.explain not in (None, ALL_PASSES):
        find_pass(options.explain)
    if options.record is not None:
        check_folder(options.record)
    choose_targets(options.target, "")  # raises for an unknown name
    settings = dict(options.settings)
    for name, option in (all_options() if settings else {}).items():
        if option.records and isinstance(settings.get(name), str | os.PathLike):
            from circlekit.equivalence.data_files.hdf5 import read_records  # h5py is slow to import

            settings[name] = read_records(settings[name])
    return replace(options, settings=settings)


def read_pipeline(path: FilePath) -> Pipeline:
    """Return the pipeline in a TOML file; ``parse_pipeline`` describes its content.

    Raise FileError if the file cannot be read, ParseError for invalid text, RewriteError for unknown names.
    """
    try:
        text = bytes(map_file(path)).decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"{os.fspath(path)}: expected text in UTF-8: {error}") from None
    return parse_pipeline(text, os.fspath(path))
