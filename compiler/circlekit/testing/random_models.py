# SPDX-License-Identifier: Apache-2.0
"""Random models: operators from their declarations, and instances of the pictures of passes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.rewrite.base import Pass
from circlekit.testing.model_builder import ModelBuilder, Rejected
from circlekit.testing.picture_instances import add_instance, pictures_of
from circlekit.testing.random_operators import random_operator


def random_model(seed: int, passes: Sequence[type[Pass]] = (), steps: int = 8) -> tuple[Model, list[Array]]:
    """Return a random model and one array for each of its inputs; the same seed gives the same model.

    The model runs with these inputs.  ``passes``: about half of the ``steps`` insert operators that match,
    or nearly match, one of these passes; all others insert one random operator.
    """
    builder = ModelBuilder.of_seed(seed)
    builder.random = np.random.default_rng([seed, 1])
    pictures = pictures_of(passes)
    for _ in range(steps):
        with suppress(Rejected):
            if pictures and builder.chance(0.5):
                add_instance(builder, pictures[builder.below(len(pictures))])
            else:
                random_operator(builder)
    return builder.model()
