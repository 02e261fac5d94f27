# SPDX-License-Identifier: Apache-2.0
"""Sparsity parameters: which can be decoded, and what is wrong with those that cannot.

In the tests, ``stored`` is the number of elements in the buffer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.ir.sparsity import level_numbers, sparsity_fault


def dense(size: int) -> dict[str, Any]:
    return {"format": "DENSE", "dense_size": size}


def csr(segments: list[int] | None, indices: list[int] | None) -> dict[str, Any]:
    level: dict[str, Any] = {"format": "SPARSE_CSR"}
    if segments is not None:
        level["array_segments"] = {"values": segments}
    if indices is not None:
        level["array_indices"] = {"values": np.array(indices, np.uint8)}
    return level


def sparsity(*levels: dict[str, Any], order: list[int] | None = None, blocks: list[int] | None = None) -> Any:
    order = list(range(len(levels))) if order is None else order
    return {"traversal_order": order, "block_map": blocks or [], "dim_metadata": list(levels)}


MATRIX = sparsity(dense(2), csr([0, 1, 3], [2, 0, 1]))  # row 0 has column 2, row 1 has columns 0 and 1


@pytest.mark.parametrize(
    ("parameters", "shape", "stored"),
    [
        (MATRIX, (2, 3), 3),
        (MATRIX, (2, 3), 4),
        (sparsity(), (), 1),
        (sparsity(dense(2), dense(3)), (2, 3), 6),
        (sparsity(dense(3), dense(2), order=[1, 0]), (2, 3), 6),
        (sparsity(dense(2), csr([0, 0, 1], [1]), dense(4), blocks=[1]), (2, 8), 4),
        (sparsity(dense(2), dense(2), dense(4), blocks=[1]), (2, 8), 16),
        (sparsity(csr([0, 0], []), dense(3)), (2, 3), 0),
    ],
)
def test_parameters_without_fault(parameters: Any, shape: tuple[int, ...], stored: int) -> None:
    assert sparsity_fault(parameters, shape, stored) is None


@pytest.mark.parametrize(
    ("parameters", "shape", "stored", "fault"),
    [
        (MATRIX, (2, 3), 2, "the sparsity places 3 elements, expected at most 2"),
        (MATRIX, (2, 2), 3, "level 1 of the sparsity has indices from 0 to 2, expected 0 <= index < 2"),
        (MATRIX, (3, 3), 3, "level 0 of the sparsity has dense size 2, expected 3"),
        (sparsity({"format": "DENSE"}), (1,), 1, "level 0 of the sparsity has dense size 0, expected 1"),
        (sparsity(dense(2), {}, blocks=[0]), (2,), 2, "blocks of 0 along axis 0, which has 2 elements"),
        (MATRIX, (6,), 3, "has traversal order [0, 1] and 2 levels, expected a permutation of [0],"),
        (sparsity(dense(1)), (), 1, "has traversal order [0] and 1 level, expected a permutation of [],"),
        (sparsity(dense(2), order=[1]), (2,), 2, "has traversal order [1] and 1 level"),
        (sparsity(dense(2), order=[]), (2,), 2, "has traversal order [] and 1 level"),
        (sparsity(dense(1), dense(2), blocks=[1]), (2,), 2, "the sparsity has blocks along [1]"),
        (sparsity(dense(1), dense(2), blocks=[-1]), (2,), 2, "the sparsity has blocks along [-1]"),
        (
            sparsity(dense(1), dense(2), dense(2), blocks=[0, 0]),
            (2,),
            4,
            "the sparsity has blocks along [0, 0], expected different axes of rank 1",
        ),
        (
            sparsity(dense(1), dense(2), blocks=[0]),
            (3,),
            2,
            "has blocks of 2 along axis 0, which has 3 elements",
        ),
        (sparsity(dense(1), dense(0), blocks=[0]), (3,), 2, "has blocks of 0 along axis 0"),
        (sparsity({"format": "ODD"}), (3,), 2, "level 0 of the sparsity has the unknown format ODD"),
        (sparsity(csr(None, [0])), (3,), 2, "level 0 of the sparsity lacks its segments or its indices"),
        (sparsity(csr([0, 1], None)), (3,), 2, "level 0 of the sparsity lacks its segments or its indices"),
        (sparsity(csr([0], [0])), (3,), 2, "has 1 segment, expected 2 ascending ones from 0"),
        (sparsity(csr([1, 1], [0])), (3,), 2, "has 2 segments, expected 2 ascending ones from 0"),
        (sparsity(dense(2), csr([0, 2, 1], [0, 1])), (2, 2), 2, "expected 3 ascending ones from 0"),
        (
            sparsity(csr([0, 3], [0, 1])),
            (3,),
            3,
            "segments that end at 3, expected at most the number of indices, 2",
        ),
        (
            sparsity(dense(1), csr([0, 1], [2]), dense(4), blocks=[1]),
            (1, 8),
            4,
            "expected 0 <= index < 2",
        ),
        (sparsity(csr([0, 1], [3])), (3,), 3, "has indices from 3 to 3, expected 0 <= index < 3"),
    ],
)
def test_faults(parameters: Any, shape: tuple[int, ...], stored: int, fault: str) -> None:
    assert fault in (sparsity_fault(parameters, shape, stored) or "")


@pytest.mark.parametrize(
    "parameters",
    [
        5,
        {"traversal_order": 5},
        {"traversal_order": ["a"]},
        sparsity(5),  # type: ignore[arg-type]  # no level
        sparsity(dense("a")),  # type: ignore[arg-type]  # no size
        sparsity(csr("ab", [0])),  # type: ignore[arg-type]  # no list
        sparsity(csr([0, 1 << 70], [0])),
    ],
)
def test_values_of_wrong_types_from_a_text_are_faults(parameters: Any) -> None:
    assert "the sparsity has a value of a wrong type" in (sparsity_fault(parameters, (1,), 1) or "")


def test_numbers_of_a_level() -> None:
    found = level_numbers(csr([0, 2], [1, 2]), "array_indices")
    assert found is not None
    assert found.dtype == np.int64
    assert found.tolist() == [1, 2]
    assert level_numbers(dense(1), "array_indices") is None
