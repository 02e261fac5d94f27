# SPDX-License-Identifier: Apache-2.0
"""What is looked at around the work: the structure of a model, and where it is to be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from circlekit.api.models import FilePath
from circlekit.errors import CirclekitError, FileError, ModelError
from circlekit.io.file_map import translated
from circlekit.io.write.file_writer import need_folder
from circlekit.io.write.save import format_of
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.verifier import verify


def check_structure(model: Model, name: str) -> None:
    """ModelError with what is unsound: no pass is run on such a model, and none is written.

    ShapeError, with the place, where operators do not fit what they read or what the model says of them.
    """
    findings = verify(model)
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise ModelError(f"{name}: {findings[0]}{more}", *map(str, findings[1:]))
    check_shapes(model)


@contextmanager
def blamed(model: Model, name: str) -> Iterator[None]:
    """Where ``model`` is unsound, and work goes on all the same: what goes wrong inside is a ModelError.

    Passes rely on the structural rules, and run into anything where one is broken.
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
        raise ModelError(f"this cannot be done to a model that is unsound: {fault}") from error


def target_format(target: FilePath, format: str | None) -> str:
    """The format to write: ``format``, or what the name says; FileError where these do not agree."""
    if not os.fspath(target):
        raise FileError("a file without a name cannot be written")
    named = format_of(target)
    if format is None and named is None:
        raise FileError(f"{os.fspath(target)}: the format does not follow from the name (.circle, .tflite)")
    if format is not None and named is not None and format != named:
        raise FileError(f"{os.fspath(target)} is the name of a {named} file, {format} was to be written")
    return str(format or named)


def check_target(target: FilePath) -> None:
    """FileError for a target that cannot be written, before the work is done."""
    path = Path(target)
    with translated(path, "written"):
        if path.is_dir():
            raise FileError(f"{path} is a directory, the name of a file is wanted")
        need_folder(path)


def check_apart(source: FilePath, target: FilePath) -> None:
    """FileError where ``target``, which is to hold no model, is the file of the model itself."""
    with translated(target, "written"):
        is_same = Path(source).exists() and Path(target).exists() and Path(source).samefile(target)
    if is_same:
        raise FileError(f"{os.fspath(target)} is the model itself, another file is wanted")
