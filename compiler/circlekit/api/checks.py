# SPDX-License-Identifier: Apache-2.0
"""Checks before and after the passes: the structure of a model, and the path to write."""

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
