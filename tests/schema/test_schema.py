# SPDX-License-Identifier: Apache-2.0
"""The schema against code that flatc made from the formats' own schemas: slots, types, defaults, numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from circlekit.io.schema import SIZES, Field, Kind, enumeration, table
from circlekit.io.tables import ENUMS, TABLES, UNIONS
from tests.io.oracles import ALIASES, CIRCLE, LITERT, ORACLES, TFLITE, Oracle, camel

ROOT = Path(__file__).parents[2]
UNREADABLE = {"deprecated_tag", "new_height", "new_width", "data_format"}
"""Fields marked deprecated: flatc makes no code for them, but they have slots."""

LETTERS = {
    "Bool": "?", "Int8": "b", "Uint8": "B", "Int16": "h", "Uint16": "H", "Int32": "i", "Uint32": "I",
    "Int64": "q", "Uint64": "Q", "Float32": "f", "Float64": "d",
}  # fmt: skip


class Recorder:
    """Stands for a flatbuffers Builder and notes the one call that a generated function makes."""

    def __getattr__(self, name: str) -> Any:
        def note(*args: Any) -> None:
            self.call = (name, args)

        return note


def call(function: Any, *args: Any) -> tuple[str, Any]:
    """Return (name, arguments) of the Builder's method that the generated ``function`` calls."""
    recorder = Recorder()
    function(recorder, *args)
    return recorder.call


def tables(oracle: Oracle) -> list[str]:
    return [name for name in TABLES if f"{name}Start" in oracle.names]


def adders(oracle: Oracle, name: str) -> dict[str, Any]:
    """The functions that set the fields of a table, by field."""
    prefix = name + "Add"
    found = {n.removeprefix(prefix): f for n, f in oracle.names.items() if n.startswith(prefix)}
    return {ALIASES.get(field, field): function for field, function in found.items()}


def check_field(oracle: Oracle, name: str, field: Field, add: Any) -> None:
    """Check the slot, type and default of a field; ``add``: the generated function that sets the field."""
    where = f"{oracle.name} {name}.{field.name}"
    method, (slot, _, default) = call(add, 0)
    assert slot == field.slot, where
    if field.kind not in (Kind.SCALAR, Kind.UNION_TYPE):
        assert method == "PrependUOffsetTRelativeSlot", where
        return
    assert LETTERS[method.removeprefix("Prepend").removesuffix("Slot")] == field.code, where
    is_named = field.enum is not None and field.kind is Kind.SCALAR
    assert default == (oracle.enums[field.enum.name][field.default] if is_named else field.default), where  # type: ignore[union-attr]


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda o: o.name)
def test_every_field_of_every_table(oracle: Oracle) -> None:
    for name in tables(oracle):
        spec = table(name, oracle.format)
        by_name = {camel(f.name): f for f in spec.fields}
        known = adders(oracle, name)
        for field, add in known.items():
            check_field(oracle, name, by_name[field], add)
            start = oracle.names.get(f"{name}Start{field}Vector")
            assert (start is not None) == (by_name[field].kind in (Kind.VECTOR, Kind.TABLES)), field
            if start is not None:
                assert call(start, 1)[1][0] == SIZES[by_name[field].code], f"{name}.{field}"
        count = call(oracle.names[f"{name}Start"])[1][0]
        if oracle is TFLITE:  # the package is one release older: it may lack the last fields
            assert count <= len(spec.fields), name
            continue
        assert count == len(spec.fields), name
        assert {f.name for f in spec.fields if camel(f.name) not in known} <= UNREADABLE, name


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda o: o.name)
def test_every_number_of_every_enum(oracle: Oracle) -> None:
    for name in (*ENUMS, *UNIONS):
        theirs = {k: v for k, v in oracle.enums[name].items() if not (name in UNIONS and k == "NONE")}
        ours = enumeration(name, oracle.format).numbers
        if oracle is TFLITE or not theirs:
            assert theirs.items() <= ours.items(), name
        else:
            assert theirs == ours, name


def test_nothing_is_missing() -> None:
    """Every table and enum that an oracle knows is in the schema, and the other way round."""
    known = {
        name.removesuffix("Start") for o in (CIRCLE, LITERT) for name in o.names if name.endswith("Start")
    }
    assert set(TABLES) == {name for name in known if name}
    assert all(CIRCLE.enums[name] or LITERT.enums[name] for name in (*ENUMS, *UNIONS))
    for oracle in (CIRCLE, LITERT):
        plain = {n for n, c in oracle.names.items() if isinstance(c, type) and not hasattr(c, "Init")}
        enums = {n for n in plain if any(isinstance(v, int) for v in vars(oracle.names[n]).values())}
        assert enums - {"IntEnum"} <= {*ENUMS, *UNIONS}


def test_tables_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "schema" / "make_tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
