# SPDX-License-Identifier: Apache-2.0
"""The register of families, which draw cases of operators whose operands need special forms."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.ir.op import REGISTRY, Op
from tools.kit.draw import Draw
from tools.kit.families.declared import NOT_COMPARED, declared_case
from tools.kit.kinds import KINDS, Case, Kind

Make = Callable[[Draw, type[Op], Kind], Case]


class Family(NamedTuple):
    """``make`` draws a case of an operator with data of one of ``kinds``."""

    make: Make
    kinds: tuple[Kind, ...]


FAMILIES: dict[str, Family] = {}
"""By operator code."""


def family(codes: str, kinds: str) -> Callable[[Make], Make]:
    """Register a function for operators ``codes`` with data of ``kinds``; repeated kinds are more likely."""

    def register(make: Make) -> Make:
        for code in codes.split():
            assert code not in FAMILIES, f"{code} has two families"
            FAMILIES[code] = Family(make, tuple(KINDS[name] for name in kinds.split()))
        return make

    return register


def codes() -> list[str]:
    """Return the codes of all operators with cases."""
    declared = {code for code, cls in REGISTRY.items() if cls.operands and cls.pure} - NOT_COMPARED
    return sorted(REGISTRY.keys() & (FAMILIES.keys() | declared))


def draw_case(code: str, seed: int, number: int) -> Case:
    """Return case ``number`` of an operator; the same seed and number give the same case.

    Raise Rejected if no operands that fit were found.
    """
    rng = np.random.Generator(np.random.PCG64([seed, zlib.crc32(code.encode()), number]))
    draw = Draw(code, rng)
    with np.errstate(all="ignore"):
        if code not in FAMILIES:
            return declared_case(draw, REGISTRY[code])
        family = FAMILIES[code]
        return family.make(draw, REGISTRY[code], draw.choice(family.kinds))
