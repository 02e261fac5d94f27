# SPDX-License-Identifier: Apache-2.0
"""Draw many times from a model with one input; decide which random events happen."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pytest

from circlekit.testing.model_builder import ModelBuilder
from circlekit.testing.random_constants import PARAMETERS

SHAPE = (2, 3, 4, 6)
"""The shape of the input of the model in the fixture ``m`` (conftest.py)."""

DRAWS = 600


def drawn(draw: Callable[[], Any]) -> set[Any]:
    """Return the different results of DRAWS draws, arrays and lists as tuples."""

    def plain(result: Any) -> Hashable:
        listed = np.asarray(result).tolist()
        return tuple(map(plain, listed)) if isinstance(listed, list) else listed

    return {plain(draw()) for _ in range(DRAWS)}


def parameter(m: ModelBuilder, name: str) -> set[Any]:
    return drawn(lambda: PARAMETERS[name](m, SHAPE))


def decide(m: ModelBuilder, monkeypatch: pytest.MonkeyPatch, *probabilities: float) -> None:
    """Make exactly the random events happen that have one of these probabilities."""
    monkeypatch.setattr(m, "chance", lambda probability: probability in probabilities)
