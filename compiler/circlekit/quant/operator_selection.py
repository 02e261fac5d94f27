# SPDX-License-Identifier: Apache-2.0
"""Select operators by patterns: the name of a result, a regular expression for it, or a kind of operator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from circlekit.errors import ModelError, UnsupportedError, check_name, did_you_mean
from circlekit.ir.graph import Model
from circlekit.ir.op import REGISTRY, Op
from circlekit.quant.scheme import Scheme, find_scheme
from circlekit.quant.weights import is_weight

EXPRESSION_PREFIX = "re:"
"""The prefix of patterns that are regular expressions, such as ``re:^block1/``."""


def name_pattern(name: str) -> str:
    """Return a pattern that selects operators by the name of a result only.

    The name itself, such as ``Relu`` in a model of TensorFlow, may also be that of an operator class.
    """
    return rf"{EXPRESSION_PREFIX}\A{re.escape(name)}\Z"


def selected(model: Model, pattern: str) -> list[Op]:
    """Return the operators of all graphs that ``pattern`` selects.

    ``re:EXPRESSION`` selects the operators with a result in whose name the expression is found.  Any other
    pattern is the whole name of a result, the name of an operator class (``Conv2D``), or the code of the
    class in the schema (``CONV_2D``).
    The result is empty for a class of which the model has no operator.  Raise ModelError for any other
    pattern that selects nothing, or that is not a text; UnsupportedError if EXPRESSION is not a regular
    expression.
    """
    check_name("a pattern", pattern)
    if pattern.startswith(EXPRESSION_PREFIX):
        try:
            expression = re.compile(pattern.removeprefix(EXPRESSION_PREFIX))
        except re.error as error:
            raise UnsupportedError(f"{pattern}: not a regular expression: {error}") from None
        found = [op for op in model.ops() if any(expression.search(v.name) for v in op.results)]
    else:
        found = [op for op in model.ops() if pattern in _names(op)]
    if not found and not _is_kind(pattern):
        known = {name for op in model.ops() for name in _names(op)}
        raise ModelError(f"{pattern!r} selects no operator{did_you_mean(pattern, known)}")
    return found


def schemes_of(
    model: Model, scheme: str, operators: Mapping[str, str] | None, only: Iterable[str] | None
) -> dict[Op, Scheme | None]:
    """Return the scheme of each operator of all graphs; None for operators that stay float.

    ``scheme``: the name of the default scheme.
    ``only``: patterns.  The operators that one of them selects get the default scheme, the others stay float.
    None: all operators get the default scheme.
    ``operators``: {pattern: name of a scheme} for operators that get another scheme than the default.  If
    several patterns select an operator, the last one counts.
    An operator that a pattern selects is quantized even if its weights are few (``Scheme.least_elements``).
    Raise the errors of ``selected`` and ``find_scheme``, and UnsupportedError if schemes of ONE and of LiteRT
    are mixed.
    """
    default = find_scheme(scheme)
    chosen = None if only is None else {op for pattern in only for op in selected(model, pattern)}
    if default is not None:
        default = replace(default, least_elements=0 if only is not None else _least_elements(model, default))
    schemes = {op: default if chosen is None or op in chosen else None for op in model.ops()}
    special = {pattern: find_scheme(name) for pattern, name in (operators or {}).items()}
    named = list(filter(None, [default, *special.values()]))
    other = next((found for found in named if found.follows_one != named[0].follows_one), None)
    if other is not None:
        raise UnsupportedError(f"{other.name} cannot be mixed with {named[0].name}: one of them is ONE's")
    for pattern, found in special.items():
        found = found and replace(found, least_elements=0)
        schemes.update(dict.fromkeys(selected(model, pattern), found))
    return schemes


def _least_elements(model: Model, scheme: Scheme) -> int:
    """Return ``least_elements`` of ``scheme``, but at most 1 % of the elements of all weights."""
    weights = {value for op in model.ops() for value in op.inputs if is_weight(value)}
    return min(scheme.least_elements, sum(value.numel for value in weights) // 100)


def _names(op: Op) -> list[str]:
    """Return all patterns without EXPRESSION_PREFIX that select ``op``."""
    return [op.code, type(op).__name__, *(v.name for v in op.results)]


def _is_kind(pattern: str) -> bool:
    """Return whether ``pattern`` is the name or the code of an operator class."""
    return pattern in REGISTRY or any(kind.__name__ == pattern for kind in REGISTRY.values())
