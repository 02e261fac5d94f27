# SPDX-License-Identifier: Apache-2.0
"""Apply recorded techniques to a float model again: a plan has a record of each (``Preparation``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from circlekit.errors import FormatError
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.techniques.equalization import equalize
from circlekit.quant.techniques.linear_layer import separate_biases
from circlekit.quant.techniques.rotation import Rotation, rotate

Record = dict[str, Any]
"""The name of a technique and its arguments, as JSON values."""


def own_biases() -> Record:
    """Return the record of ``separate_biases``."""
    return {"technique": "own biases"}


def equalized(magnitudes: Mapping[str, Array], strength: float) -> Record:
    """Return the record of ``equalize``."""
    channels = {name: numbers.tolist() for name, numbers in magnitudes.items()}
    return {"technique": "equalization", "strength": strength, "magnitudes": channels}


def rotated(rotations: Iterable[Rotation]) -> Record:
    """Return the record of ``rotate``."""
    return {"technique": "rotation", "rotations": [rotation._asdict() for rotation in rotations]}


def _rotate(model: Model, rotations: Iterable[Mapping[str, Any]]) -> None:
    rotate(model, [Rotation(**fields) for fields in rotations])


def _equalize(model: Model, magnitudes: Mapping[str, list[float]], strength: float) -> None:
    arrays = {name: np.array(numbers, np.float64) for name, numbers in magnitudes.items()}
    equalize(model, arrays, float(strength))


TECHNIQUES: Mapping[str, Callable[..., None]] = {
    "own biases": lambda model: separate_biases(model.main),
    "equalization": _equalize,
    "rotation": _rotate,
}
"""The techniques that change a float model, by name; they take the model and the arguments of a record."""


def replay(model: Model, records: Iterable[Record]) -> None:
    """Change ``model`` in place as the records say; raise FormatError for a record that is not valid."""
    for record in records:
        _replay_one(model, record)


def _replay_one(model: Model, record: Record) -> None:
    try:
        arguments = {key: value for key, value in record.items() if key != "technique"}
        TECHNIQUES[record["technique"]](model, **arguments)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        name = record.get("technique") if isinstance(record, dict) else record
        raise FormatError(f"the plan's technique {name!r} is not understood: {error!r}") from None
