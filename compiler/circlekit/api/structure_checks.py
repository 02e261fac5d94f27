# SPDX-License-Identifier: Apache-2.0
"""Check the structure of a model; find out whether an exception is due to an invalid model or to a pass.

A structural rule is, for example, that an operator reads only values that were produced before.  A shape rule
is a condition of an operator on the shapes and dtypes of its operands and results.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from circlekit.errors import CirclekitError, ModelError
from circlekit.ir import verifier
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model, check_model
from circlekit.ir.shape_inference import check_shapes, settle_ranks


def verify(model: Model) -> None:
    """Raise ModelError if ``model`` breaks a structural rule, ShapeError if it breaks a shape rule.

    Examples: an operator reads a value that a later operator computes; the shape of a result is not the one
    that follows from the operands.  Functions that change a graph, such as ``Graph.replace``, check only the
    conditions that their docstrings name.
    """
    check_model(model)
    check_structure(model)


def check_structure(model: Model, name: str | None = None) -> None:
    """Raise ModelError if ``model`` breaks a structural rule, ShapeError if it breaks a shape rule.

    ``name``: the name of the model in the message of a ModelError; None: the path of its file.
    """
    findings = verifier.verify(model)
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        name = name or model.source or "the model"
        raise ModelError(f"{name}: {findings[0]}{more}", *map(str, findings[1:]))  # each on its own line
    check_shapes(model)


@contextmanager
def blaming_model(model: Model) -> Iterator[None]:
    """Turn exceptions in the body of ``with`` into ModelErrors if ``model`` was invalid before the body ran.

    An invalid model breaks a structural or shape rule.  Passes rely on these rules, so they may raise any
    exception for such a model.  A CirclekitError or MemoryError is raised unchanged.
    """
    fault = ""  # "" for a valid model
    try:
        check_structure(model)
        if any(v.shape == () and not v.is_const for graph in model.graphs for v in graph.values()):
            settle_ranks(clone(model))  # [] may stand for an unknown rank, and hide a broken rule
    except CirclekitError as invalid:
        fault = invalid.message
    try:
        yield
    except Exception as error:
        if not fault or isinstance(error, CirclekitError | MemoryError):
            raise
        raise ModelError(f"the passes failed on an invalid model: {fault}") from error
