# SPDX-License-Identifier: Apache-2.0
"""The options of an optimization, and their checks before any work."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from circlekit.api.models import FilePath, check_output_path
from circlekit.equivalence.data_files.tensor_files import check_folder
from circlekit.errors import ModelError, ParseError, RewriteError, check_name, names_in
from circlekit.interp.evaluate import Inputs
from circlekit.io.file_map import map_file
from circlekit.passes.engine.explain import ALL_PASSES
from circlekit.passes.engine.pass_settings import all_options, checked_settings
from circlekit.passes.engine.pipeline_file import Pipeline, parse_pipeline
from circlekit.passes.engine.registry import all_passes, find_pass, pass_names
from circlekit.targets.target_choice import TargetChoice, choose_targets


@dataclass(frozen=True)
class Options:
    """The options of an optimization.

    ``passes``: names of passes and pipelines, in the order to run them.
    ``validate``: check the structure of the model and the shapes of its operators before and after the work.
    If False, only the order of the operators is checked, and only if passes run.
    ``profile``: write ONE's tables of origins into the metadata.  They list, for each operator that is
    written, the operators of the input model from which it was made.
    ``keep_activations``: keep activations that are fused into TRANSPOSE_CONVs, although ONE's runtime ignores
    them.  If False, such an activation is written as an operator of its own in two cases: ``target`` names
    luci (ONE's interpreter), or it names no runtime and the format is circle.  A TRANSPOSE_CONV that a named
    target refuses is replaced even if this is True.
    ``explain_op``: chooses operators of the optimized model to explain, as ``which`` of the function
    ``explain_op`` does.
    All other fields are arguments of the function ``optimize``.
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
    """Check ``options``; return a copy with lists of names, and settings with records in place of HDF5 files.

    In the copy, ``passes`` and ``disable`` can be read several times, also if they are iterators in
    ``options``.  Settings have the values that passes read: see ``checked_settings``.  Raise:

    - RewriteError for an unknown pass or setting, a wrong value of a setting, or a setting of a pass that
      does not run
    - UnsupportedError for an unknown target
    - FileError if ``record`` cannot be used as a folder or ``bisect`` as a file, or if a file of records
      cannot be read
    - FormatError if a file of records is not HDF5, or has another layout; LimitError if it is too large
    - ModelError if ``options``, its settings or its target have a wrong type, or a name is not a string
    """
    if not isinstance(options, Options):
        raise ModelError(f"expected circlekit.api.options.Options, got {type(options).__name__}")
    disable, selected = names_in("a pass", options.disable), names_in("a pass", options.passes)
    names = pass_names(selected, disable)
    settings = checked_settings(options.settings)
    passes = all_passes()
    for setting in settings:
        owner = next(
            name for name, item in passes.items() if any(option.name == setting for option in item.options)
        )
        if owner not in names:
            raise RewriteError(
                f"{setting} is a setting of the pass {owner}, which does not run; add {owner} to the passes"
            )
    if options.explain is not None:
        check_name("a pass", options.explain)
        if options.explain != ALL_PASSES:
            find_pass(options.explain)
    if options.record is not None:
        check_folder(options.record)
    if options.bisect is not None:
        check_output_path(options.bisect)
    choose_targets(options.target, "")  # raises for an unknown name; the format does not matter here
    return replace(options, passes=selected, disable=disable, settings=with_records(settings))


def with_records(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked ``settings`` with records in place of HDF5 files.

    Raise FileError for a file that cannot be read, FormatError for one that is not HDF5 or has another
    layout, LimitError for one that is too large.
    """
    found = dict(settings)
    options = all_options() if found else {}
    for name, value in settings.items():
        if options[name].records and isinstance(value, str | os.PathLike):
            from circlekit.equivalence.data_files.hdf5 import read_records  # h5py is slow to import

            found[name] = read_records(value)
    return found


def read_pipeline(path: FilePath) -> Pipeline:
    """Return the pipeline in the TOML file ``path``: passes to run, passes to omit, settings of passes.

    ``parse_pipeline`` describes the keys of the file.
    Raise FileError if the file cannot be read, LimitError if it is a pipe with more bytes than the memory
    limit, ParseError for invalid text or a wrong value of a setting, RewriteError for unknown names.
    """
    try:
        text = bytes(map_file(path)).decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"{os.fspath(path)}: expected text in UTF-8: {error}") from None
    return parse_pipeline(text, os.fspath(path))
