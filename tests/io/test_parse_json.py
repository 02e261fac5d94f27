# SPDX-License-Identifier: Apache-2.0
"""JSON files that are nested more deeply than Python recurses end in an error that names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import circlekit
from circlekit.errors import CirclekitError
from circlekit.io.parse_json import parse_json
from circlekit.quant.one.implant import implant
from circlekit.quant.one.settings import read_layers
from circlekit.structure.connection import read_connection
from circlekit.toolchain.configuration import read_workflow_json

DEPTH = 100_000


@pytest.mark.parametrize("text", ["[" * DEPTH, '{"a":' * DEPTH, "[" * DEPTH + "]" * DEPTH])
def test_deep_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"^lists or objects are nested too deeply$"):
        parse_json(text)
    assert parse_json(b'{"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize(
    "read",
    [
        read_connection,
        read_layers,
        read_workflow_json,
        lambda path: implant(circlekit.parse("graph main(%x: f32[1]) -> %x {}"), path),
    ],
)
def test_readers_of_json_files_name_the_file(read: Callable[[str], object], tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * DEPTH)
    with pytest.raises(CirclekitError, match=r"deep\.json.*nested too deeply"):
        read(str(path))
