# SPDX-License-Identifier: Apache-2.0
"""Record the techniques that changed a float model, and apply them again from these records.

A plan holds the records (``Preparation.techniques``), so that it can be applied to the float model later.
"""

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
"""The name of a technique (key ``technique``) and its arguments, as JSON values."""


def own_biases() -> Record:
    """Return a record of ``separate_biases``, which gives layers that share a bias a copy each."""
    return {"technique": "own biases"}


def equalized(magnitudes: Mapping[str, Array], strength: float) -> Record:
    """Return a record of ``equalize``, called with these arguments."""
    channels = {name: numbers.tolist() for name, numbers in magnitudes.items()}
    return {"technique": "equalization", "strength": strength, "magnitudes": channels}


def rotated(rotations: Iterable[Rotation]) -> Record:
    """Return a record of ``rotate``, called with these arguments."""
    return {"technique": "rotation", "rotations": [rotation._asdict() for rotation in rotations]}


def _rotate(model: Model, rotations: Iterable[Mapping[str, Any]]) -> None:
    """Rotate ``model``; ``rotations``: the fields of each ``Rotation``, from a record."""
    rotate(model, [Rotation(**fields) for fields in rotations])


def _equalize(model: Model, magnitudes: Mapping[str, list[float]], strength: float) -> None:
    """Equalize ``model`` with the arguments in a record, where arrays are lists."""
    if not 0 <= strength <= 1:
        raise ValueError(f"expected a strength from 0 to 1, got {strength}")
    arrays = {name: np.array(numbers, np.float64) for name, numbers in magnitudes.items()}
    equalize(model, arrays, float(strength))


TECHNIQUES: Mapping[str, Callable[..., None]] = {
    "own biases": lambda model: separate_biases(model.main),
    "equalization": _equalize,
    "rotation": _rotate,
}
"""By name, functions that apply a technique to a model with the arguments of a record."""


def replay(model: Model, records: Iterable[Record]) -> None:
    """Apply ``records`` to ``model`` in place, in their order.

    Raise FormatError for a wrong record; ModelError for a rotation whose layers are absent or do not fit it.
    """
    for record in records:
        _replay_one(model, record)


def _replay_one(model: Model, record: Record) -> None:
    """Apply one record to ``model`` in place; errors: see ``replay``."""
    try:
        arguments = {key: value for key, value in record.items() if key != "technique"}
        TECHNIQUES[record["technique"]](model, **arguments)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        name = record.get("technique") if isinstance(record, dict) else record
        raise FormatError(
            f"the plan has a technique {name!r} that is unknown or has wrong arguments: {error!r}"
        ) from None
