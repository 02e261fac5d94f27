# SPDX-License-Identifier: Apache-2.0
"""The model of several tests of the public functions."""

from __future__ import annotations

import pytest

import circlekit
from tests.nets import TCONV_BATCH_NORM

RECIPE = """signature "serve" @main (image: %x) -> (result: %y)""" + TCONV_BATCH_NORM


@pytest.fixture
def model() -> circlekit.Model:
    return circlekit.parse(RECIPE)
