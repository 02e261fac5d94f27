# SPDX-License-Identifier: Apache-2.0
"""The recorded inputs and outputs of the shared models."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from circlekit.ir.value import Array


def recorded(path: Path) -> tuple[list[Array], list[Array]]:
    """Return the inputs ``in0``, ``in1``... and the outputs ``out0``, ``out1``... in an npz file."""
    with np.load(path) as file:
        inputs, outputs = (
            [file[f"{side}{i}"] for i in range(sum(name.startswith(side) for name in file.files))]
            for side in ("in", "out")
        )
    return inputs, outputs
