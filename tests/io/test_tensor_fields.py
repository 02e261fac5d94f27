# SPDX-License-Identifier: Apache-2.0
"""Shapes and quantizations between the fields of a tensor's table and the IR."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import FormatError
from circlekit.io.schema import Tree
from circlekit.io.tensor_fields import (
    quantization_of,
    quantization_tree,
    shape_fields,
    shape_of,
    with_indices,
)
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Quantization, Shape, Value

F32 = np.float32

ODD: Tree = {"shape": [7, 3], "shape_signature": [-1, 3]}
"""The unknown dimension is 7 in ``shape``, where converters write 1."""


@pytest.mark.parametrize(
    ("stored", "signature", "shape"),
    [
        ([], None, ()),
        ([-1, 0, 3], None, (None, 0, 3)),
        ([1, 2, 3], [-1, 2, -128], (None, 2, None)),
        ([-1, 2], [5, 2], (None, 2)),
        ([4, 2], [0, 0], (4, 2)),
        ([0, 2], [0, 2], (0, 2)),
        ([4, 2], [-1], (4, 2)),
        ([4, 2], [-1, -1, -1], (4, 2)),
    ],
)
def test_shape_and_signature(stored: list[int], signature: list[int] | None, shape: Shape) -> None:
    assert shape_of(stored, signature) == shape


def test_dimensions_below_minus_one_are_refused() -> None:
    with pytest.raises(FormatError, match=r"from -1 \(unknown\) on, got \[3, -2\]"):
        shape_of([3, -2], None)


@pytest.mark.parametrize(
    ("shape", "extra", "is_const", "fields"),
    [
        ((2, 3), {}, False, {"shape": [2, 3]}),
        (None, {}, False, {"shape": []}),
        ((None, 3), {}, False, {"shape": [1, 3], "shape_signature": [-1, 3]}),
        ((2, 3), {"shape_signature": [2, 3]}, False, {"shape": [2, 3], "shape_signature": [2, 3]}),
        ((None, 3), ODD, False, ODD),
        ((2, 3), ODD, False, {"shape": [2, 3]}),
        ((7, 3), ODD, True, ODD),
        ((None,), {"shape": [-1]}, False, {"shape": [-1]}),
    ],
)  # fmt: skip
def test_fields_of_a_shape(shape: Shape | None, extra: Tree, is_const: bool, fields: Tree) -> None:
    """The fields of the input file are kept if they stand for the shape; else the usual ones are written."""
    assert shape_fields(shape, extra, is_const) == fields


@pytest.mark.parametrize("tree", [None, {}, {"quantized_dimension": 1}, {"scale": np.zeros(0, F32)}])
def test_table_without_parameters(tree: Tree | None) -> None:
    assert quantization_of(tree) is None


@pytest.mark.parametrize("name", ["scale", "min", "max", "zero_point"])
def test_one_parameter_makes_a_quantization(name: str) -> None:
    kind = np.int64 if name == "zero_point" else F32
    quantization = quantization_of({name: np.ones(2, kind)})
    assert quantization is not None
    assert getattr(quantization, name).tolist() == [1, 1]
    assert quantization.zero_point.tolist() == {"scale": [0, 0], "zero_point": [1, 1]}.get(name, [])
    assert quantization.quantized_dimension == 0


def test_details_make_a_quantization() -> None:
    quantization = quantization_of({"details": {"": "CustomQuantization", "custom": np.ones(2, np.uint8)}})
    assert quantization is not None
    assert quantization.details == {"": "CustomQuantization", "custom": [1, 1]}


def test_table_of_a_quantization() -> None:
    tree = quantization_tree(Quantization(np.ones(2, F32), np.zeros(2, np.int64), 1), None)
    assert tree is not None
    assert {name: np.asarray(value).tolist() for name, value in tree.items()} == {
        "scale": [1, 1], "zero_point": [0, 0], "quantized_dimension": 1,
    }  # fmt: skip
    assert (tree["scale"].dtype, tree["zero_point"].dtype) == (np.float32, np.int64)
    assert quantization_tree(None, None) is None


def test_table_of_the_file_is_kept_if_it_means_the_same() -> None:
    stored: dict[str, Any] = {"scale": np.ones(1, F32), "min": np.zeros(0, F32), "quantized_dimension": 0}
    quantization = quantization_of(stored)
    assert quantization_tree(quantization, stored) is stored
    assert quantization_tree(Quantization(np.ones(1, F32) * 2, np.zeros(1, np.int64)), stored) is not stored
    assert quantization_tree(None, stored) is None
    assert quantization_tree(None, {"quantized_dimension": 3}) == {"quantized_dimension": 3}


@pytest.mark.parametrize("table", ["BlockwiseQuantization", "MultiAxisQuantization"])
def test_values_in_details_are_written_as_indices(table: str) -> None:
    """Without a tensor, a field is written as -1: the schema's default 0 would be the first tensor."""
    scales = Value("s", DType.FLOAT16, (2,))
    details = {"": table, "scales": scales}
    quantization = Quantization(np.zeros(0, F32), np.zeros(0, np.int64), 0, None, None, details)
    stored = with_indices(quantization, {id(scales): 7})
    assert stored is not None
    assert stored.details == {"": table, "scales": 7, "zero_points": -1}
    assert with_indices(None, {}) is None
