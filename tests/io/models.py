# SPDX-License-Identifier: Apache-2.0
"""Small files with what real models rarely have, packed by the formats' own generated code."""

from __future__ import annotations

LIBRARY: dict[str, object] = {}


def recipe(name: str) -> bytes:
    raise KeyError(name)
