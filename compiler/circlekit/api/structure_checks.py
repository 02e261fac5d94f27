# SPDX-License-Identifier: Apache-2.0
"""Check a whole model; if work on a model fails, find out whether the model was invalid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from circlekit.errors import CirclekitError, ModelError
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.verifier import verify


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
