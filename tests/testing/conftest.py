# SPDX-License-Identifier: Apache-2.0
"""A model with one input, to which random operators are added."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph
from circlekit.ir.value import Value
from circlekit.testing.model_builder import ModelBuilder
from tests.testing.draws import SHAPE


@pytest.fixture
def m() -> ModelBuilder:
    x = Value("x", f32, SHAPE)
    return ModelBuilder(Graph("main", [x]), [np.zeros(SHAPE, np.float32)], np.random.default_rng(5))
