# SPDX-License-Identifier: Apache-2.0
"""Sentences for the user about operators of a quantized model whose integer results may be far off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from circlekit.ir.graph import Model
from circlekit.quant.plan import key_of


def cautions(model: Model) -> list[str]:
    """Return a sentence for each different ``Op.integer_caution`` of operators of the quantized ``model``.

    The sentence names the first of the operators with this caution, and counts the others.
    """
    names: dict[str, list[str]] = {}
    for op in model.ops():
        caution = op.integer_caution()
        if caution is not None:
            names.setdefault(caution, []).append(key_of(op))
    return list(by_reason(names))


def by_reason(names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a sentence such as ``%y and 2 more: REASON`` for each reason.

    ``names``: by reason, the names of the operators.
    """
    for reason, found in names.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"%{found[0]}{more}: {reason}"
