# SPDX-License-Identifier: Apache-2.0
"""Every field that independent readers find in a model is equal for our reader and survives saving."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.io.read.flatbuffer_decoder import decode, identify
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.op import REGISTRY
from tests.io.models import LIBRARY, file_bytes
from tests.io.oracles import CIRCLE, LITERT, ORACLES, TFLITE, Oracle, differences


def readers(data: bytes) -> list[Oracle]:
    """Return the oracles that read the format of a file."""
    return [oracle for oracle in ORACLES if oracle.format == identify(memoryview(data))]


def agree(data: bytes) -> None:
    """Assert that our tree of a file equals every oracle's, before and after a round trip through the IR.

    There are two round trips: one with declared operators, and one with opaque operators only.
    """
    saved = to_bytes(load_bytes(data))
    with patch.dict(REGISTRY, clear=True):
        opaque = to_bytes(load_bytes(data))
    for oracle in readers(data):
        theirs = oracle.read(data)
        for ours in (data, saved, opaque):
            tree = decode(memoryview(ours), oracle.format)
            assert differences(oracle, "Model", tree, theirs) == []


def test_fields_of_real_models(model_path: Path) -> None:
    agree(model_path.read_bytes())


def test_operator_codes(model_path: Path) -> None:
    """The one-byte and the four-byte field of an operator code are read as by the oracles."""
    data = model_path.read_bytes()
    oracle = CIRCLE if identify(memoryview(data)) == "circle" else TFLITE
    model = oracle.names["Model"].GetRootAs(data)
    numbers = oracle.enums["BuiltinOperator"]
    for index, graph in enumerate(load_bytes(data).graphs):
        reader = model.Subgraphs(index)
        codes = [model.OperatorCodes(reader.Operators(i).OpcodeIndex()) for i in range(len(graph.ops))]
        assert [numbers[op.code] for op in graph] == [code.BuiltinCode() for code in codes]


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_fields_of_rare_features(name: str) -> None:
    agree(file_bytes(name))


def test_the_length_of_an_external_buffer_is_a_field_and_that_of_a_vector_is_not() -> None:
    assert LITERT.fields("ExternalBuffer") == ["Id", "Group", "Offset", "Length", "Packing"]
    assert "Shape" in LITERT.fields("Tensor")
    assert "ShapeLength" not in LITERT.fields("Tensor")
