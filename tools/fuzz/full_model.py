# SPDX-License-Identifier: Apache-2.0
"""A model with every table and field of a format: a valid flatbuffer, not a meaningful model."""

from __future__ import annotations

import random
from typing import Any

from circlekit.io.schema import SIZES, Field, Kind, Table, Tree, enumeration, table
from circlekit.io.write.flatbuffer_encoder import encode

SCALAR_PROBABILITY = 0.9
"""Probability that a scalar or a string is present; all other fields are always present."""


def full_model(fmt: str, rng: random.Random) -> bytes:
    """Return the file.

    The first graph has one operator for each options table; all further vectors of tables have two tables.
    """
    tree = _table(table("Model", fmt), fmt, rng)
    operator = table("Operator", fmt)
    tree["subgraphs"][0]["operators"] = [
        {**_table(operator, fmt, rng), name: _member(member, fmt, rng)}
        for name, union in (("builtin_options", "BuiltinOptions"), ("builtin_options_2", "BuiltinOptions2"))
        for member in enumeration(union, fmt).numbers
        if member != "NONE"
    ]
    return b"".join(encode(tree, fmt).pieces())


def _table(spec: Table, fmt: str, rng: random.Random) -> Tree:
    """Return a table with random values of its fields."""
    fields = (f for f in spec.fields if f.kind is not Kind.UNION_TYPE)
    return {
        f.name: _value(f, fmt, rng)
        for f in fields
        if f.kind not in (Kind.SCALAR, Kind.STRING) or rng.random() < SCALAR_PROBABILITY
    }


def _member(name: str, fmt: str, rng: random.Random) -> Tree:
    """Return the table ``name`` as a member of a union; the key "" tells which member it is."""
    return {**_table(table(name, fmt), fmt, rng), "": name}


def _value(field: Field, fmt: str, rng: random.Random) -> Any:
    """Return a random value of ``field``; strings and vectors may be empty."""
    if field.kind is Kind.SCALAR:
        return _number(field, rng)
    if field.kind is Kind.STRING:
        return "name"[: rng.randrange(5)]
    if field.kind is Kind.VECTOR:
        count = rng.choice((0, 1, 2, 3, 5))
        numbers = [_number(field, rng) for _ in range(count)]
        return bytes(numbers) if field.is_data else numbers
    if field.kind is Kind.UNION:
        assert field.enum is not None
        return _member(rng.choice([name for name in field.enum.numbers if name != "NONE"]), fmt, rng)
    if field.kind is Kind.TABLE:
        return _table(table(field.table, fmt), fmt, rng)
    return [_table(table(field.table, fmt), fmt, rng) for _ in range(2)]


def _number(field: Field, rng: random.Random) -> Any:
    if field.enum is not None:
        return rng.choice(list(field.enum.numbers.values()))
    if field.code in "?fd":
        return rng.random() < 0.5 if field.code == "?" else 1.0
    return rng.randrange(1, 1 << 8 * SIZES[field.code] - 1)
