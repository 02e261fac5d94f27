# SPDX-License-Identifier: Apache-2.0
"""Check the Python types of the values for the fields of the file's tables.

A model as text can state such fields, with values of any type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError
from circlekit.io.schema import Field, Kind, Table
from circlekit.io.write.buffer_table import ConstantBytes

TYPES: dict[Kind, tuple[str, tuple[type, ...]]] = {
    Kind.SCALAR: ("a number or the name of an enum value", (int, float, str, np.generic, ConstantBytes)),
    Kind.STRING: ("a string", (str,)),
    Kind.VECTOR: ("a list", (list, tuple, np.ndarray, bytes, bytearray, memoryview, ConstantBytes)),
    Kind.TABLE: ("a table", (dict,)),
    Kind.TABLES: ("a list of tables", (list, tuple)),
    Kind.UNION_TYPE: ("the name of a table", (int, str)),
    Kind.UNION: ("a table with its name under the key ''", (dict,)),
}
"""For each kind of field: a description of its values, for errors, and the Python types that they have."""

USUAL_TYPES: dict[Kind, type] = {
    Kind.SCALAR: int, Kind.STRING: str, Kind.VECTOR: list, Kind.TABLE: dict,
}  # fmt: skip
"""A Python type that every field of the kind takes.  To save time, its values are not checked any further."""


def check_type(field: Field, value: Any, spec: Table) -> None:
    """Raise ModelError if ``field``, a field of the table ``spec``, cannot have a value of this type."""
    what, types = TYPES[field.kind]
    fits = isinstance(value, types)
    if field.kind is Kind.SCALAR and field.enum is None:
        what, fits = "a number", fits and not isinstance(value, str)
    elif field.kind is Kind.UNION:
        fits = fits and isinstance(value.get(""), str)
    elif field.kind is Kind.TABLES:
        fits = fits and all(isinstance(tree, dict) for tree in value)
    if not fits:
        raise ModelError(f"{spec.name}.{field.name}: expected {what}, got {value!r:.80}")
