# SPDX-License-Identifier: Apache-2.0
"""Pipelines: the only place where the order of passes is written."""

from __future__ import annotations

from collections.abc import Iterable

PIPELINES: dict[str, tuple[str, ...]] = {
    "O1": (
        "fold_constants",
        "common_subexpression_elimination",
        "layout",
        "remove_dead",
    ),
}
"""Passes by name of the pipeline, in the order in which a round runs them."""


def in_order(names: Iterable[str]) -> list[str]:
    """``names``, each once: first those of O1 in its order, then the others by the alphabet."""
    rank = {name: index for index, name in enumerate(PIPELINES["O1"])}
    return sorted(set(names), key=lambda name: (rank.get(name, len(rank)), name))
