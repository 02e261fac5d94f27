# SPDX-License-Identifier: Apache-2.0
"""The register of families."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.ir.op import REGISTRY, Op
from tools.kit.draw import Draw
from tools.kit.kinds import Case, Kind

Make = Callable[[Draw, type[Op], Kind], Case]


class Family(NamedTuple):
    """``make`` draws a case of an operator with data of one of ``kinds``."""

    make: Make
    kinds: tuple[Kind, ...]


FAMILIES: dict[str, Family] = {}
"""By the schema's name of the operator."""


def family(*codes: str, kinds: Sequence[Kind]) -> Callable[[Make], Make]:
    """Says that the decorated function draws cases of the operators ``codes``."""

    def note(make: Make) -> Make:
        for code in codes:
            assert code not in FAMILIES, f"{code} has two families"
            FAMILIES[code] = Family(make, tuple(kinds))
        return make

    return note


def draw_case(code: str, seed: int, number: int) -> Case:
    """Case ``number`` of operator ``code``: the same for ever, given the same ``seed``."""
    rng = np.random.Generator(np.random.PCG64([seed, zlib.crc32(code.encode()), number]))
    draw = Draw(code, rng)
    made = FAMILIES[code]
    with np.errstate(all="ignore"):
        return made.make(draw, REGISTRY[code], draw.choice(made.kinds))
