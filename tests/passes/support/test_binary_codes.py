# SPDX-License-Identifier: Apache-2.0
"""Bundles of binary codes among the outputs of a model: what is read, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pytest

from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import Reshape
from circlekit.passes.support.binary_codes import Coded, Info, read_info
from tests.ops.matmul.bcq_codes import codes, read_plainly

CLUSTERS = [[2, 1], [1, 2]]  # bits and rows: a row of two codes, and two rows of one code
HIDDEN = 33  # one column more than a word has bits
SCALES, WORDS = codes(CLUSTERS, HIDDEN)
WEIGHTS = read_plainly(SCALES, WORDS, CLUSTERS, HIDDEN).astype(np.float32)

START, END = -1_999_999_973, 1_999_999_973  # as ONE writes them


def bundle(name: str = "w", changes: Mapping[str, Array] = MappingProxyType({})) -> list[Value]:
    """Return the constants of a bundle in ONE's order; ``changes``: other arrays, by item."""
    arrays = {
        "DO_W_X": np.array([True]),
        "ALPHA": SCALES,
        "BINARY": WORDS,
        "NUMBER": np.array([2], np.int32),
        "ROWS": np.array([1, 2], np.int32),
        "BITS": np.array([2, 1], np.int32),
        "WEIGHTS": WEIGHTS,
        **changes,
    }
    return [Value.constant(f"{name}/{key}", array) for key, array in arrays.items()]


def outputs_of(mark: Sequence[int], real: int, *rest: Value) -> list[Value]:
    """Return a marker, ``real`` outputs and ``rest``."""
    values = [Value(f"y{index}", f32, (1,)) for index in range(real)]
    return [Value.constant("mark", np.array(mark, np.int32)), *values, *rest]


def read(outputs: Sequence[Value]) -> Info | str | None:
    return read_info(Graph("main", [], outputs))


@pytest.mark.parametrize("real", [0, 1, 2])
@pytest.mark.parametrize("size", [7, 8])
def test_bundles_are_read(real: int, size: int) -> None:
    more = [Value.constant("dequant", WEIGHTS)] * (size - 7)
    outputs = outputs_of(
        [START, 1, real, size, END], real, *bundle("a"), *more, *bundle("b", {"WEIGHTS": 2 * WEIGHTS}), *more
    )
    info = read(outputs)
    assert isinstance(info, Info)
    assert [v.name for v in info.outputs] == [f"y{index}" for index in range(real)]
    assert [c.name for c in info.coded] == ["a/WEIGHTS", "b/WEIGHTS"]
    assert info.wrong == []
    first = info.coded[0]
    assert first.rows == 3
    assert first.clusters.tolist() == CLUSTERS
    np.testing.assert_array_equal(first.scales, SCALES)
    np.testing.assert_array_equal(first.binary, WORDS)
    np.testing.assert_array_equal(first.weights, WEIGHTS)


@pytest.mark.parametrize(
    ("mark", "found"),
    [
        ([START, 1, 1, END], "%mark: announces 1 output and bundles of 1999999973, got 8 outputs"),
        ([START, 1, END], None),
        ([START + 1, 1, 1, 7, END], None),
        ([START, 1, 1, 7, END - 1], None),
        ([START, 2, 1, 7, END], "%mark: expected version 1 of the codes, got 2"),
        ([START, 1, 1, 6, END], "%mark: announces 1 output and bundles of 6, got 8 outputs"),
        ([START, 1, -1, 7, END], "%mark: announces -1 outputs and bundles of 7, got 8 outputs"),
        ([START, 1, 9, 7, END], "%mark: announces 9 outputs and bundles of 7, got 8 outputs"),
        ([START, 1, 1, 8, END], "%mark: announces bundles of 8, got 7 outputs for them"),
    ],
)
def test_markers(mark: Sequence[int], found: str | None) -> None:
    assert read(outputs_of(mark, 1, *bundle())) == found


def test_a_marker_without_bundles() -> None:
    info = read(outputs_of([START, 1, 3, 7, END], 3))
    assert isinstance(info, Info)
    assert (len(info.outputs), info.coded) == (3, [])


def test_graphs_without_a_marker() -> None:
    assert read([]) is None
    assert read([Value("y", f32, (1,))]) is None


def test_a_marker_behind_a_reshape() -> None:
    mark = Value.constant("c", np.array([START, 1, 0, 7, END], np.int32))
    reshape = Reshape(mark, Value.constant("s", np.array([1, 5], np.int32)))
    assert isinstance(read([reshape.output, *bundle()]), Info)


WRONG_CLUSTERS = (
    "%w/WEIGHTS: expected clusters with bits and rows above 0, got number {}, bits {} and rows {}"
)
CLUSTER_COUNT = (
    "%w/WEIGHTS: expected {} codes and scales for its clusters, got {} scales and codes of shape {}"
)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"NUMBER": np.array([2, 9], np.int32)}, None),  # the last number has no meaning
        ({"ROWS": np.array([1, 2, 9], np.int32), "BITS": np.array([2, 1, 9], np.int32)}, None),
        ({"NUMBER": np.zeros(0, np.int32)}, WRONG_CLUSTERS.format(0, [2, 1], [1, 2])),
        ({"NUMBER": np.array([0], np.int32)}, WRONG_CLUSTERS.format(0, [2, 1], [1, 2])),
        ({"NUMBER": np.array([3], np.int32)}, WRONG_CLUSTERS.format(3, [2, 1], [1, 2])),
        ({"ROWS": np.array([1], np.int32)}, WRONG_CLUSTERS.format(2, [2, 1], [1])),
        ({"ROWS": np.array([0, 4], np.int32)}, WRONG_CLUSTERS.format(2, [2, 1], [0, 4])),
        ({"BITS": np.array([4, 0], np.int32)}, WRONG_CLUSTERS.format(2, [4, 0], [1, 2])),
        ({"ROWS": np.array([2, 2], np.int32)}, CLUSTER_COUNT.format(6, 4, [4, 2])),
        ({"ALPHA": SCALES[:3]}, CLUSTER_COUNT.format(4, 3, [4, 2])),
        ({"BINARY": WORDS[:3]}, CLUSTER_COUNT.format(4, 4, [3, 2])),
        ({"BINARY": WORDS.reshape(-1)[:4]}, CLUSTER_COUNT.format(4, 4, [4])),
        (
            {"ALPHA": SCALES.astype(np.float64)},
            "%w/ALPHA: expected a constant of f32, got f64[4]",
        ),
        (
            {"NUMBER": np.array([1], np.int32), "ALPHA": SCALES[:2], "BINARY": WORDS[:2]},
            None,  # only the first cluster
        ),
        (
            {
                "NUMBER": np.array([1], np.int32),
                "ROWS": np.ones(1, np.int32),
                "BITS": np.ones(1, np.int32),
                "ALPHA": SCALES[:1],
                "BINARY": WORDS[:1],
            },
            None,
        ),
    ],
)
def test_bundles_are_coded_or_wrong(changes: dict[str, Array], found: str | None) -> None:
    """Each cluster needs bits * rows codes: here 2 * 1 + 1 * 2 = 4.

    ``found``: the sentence about a wrong bundle; None: the bundle is valid.
    """
    info = read(outputs_of([START, 1, 0, 7, END], 0, *bundle("w", changes)))
    assert isinstance(info, Info)
    assert list(info.wrong) == ([] if found is None else [found])
    assert len(info.coded) == (found is None)


SQUARE = np.arange(9, dtype=np.float32).reshape(3, 3)


def coded(weights: Array = WEIGHTS) -> Coded:
    """Return the codes of WEIGHTS as those of the constant ``weights``."""
    return Coded("w", weights, SCALES, WORDS, np.array(CLUSTERS, np.int32))


@pytest.mark.parametrize(
    ("weights", "constant", "expected"),
    [
        (WEIGHTS, WEIGHTS, True),
        (WEIGHTS, WEIGHTS.T, True),
        (WEIGHTS, WEIGHTS + 1, False),
        (WEIGHTS, WEIGHTS.T + 1, False),
        (WEIGHTS, WEIGHTS[:2], False),
        (WEIGHTS, WEIGHTS.T.reshape(3, 33), False),  # not transposed back
        (WEIGHTS, WEIGHTS.reshape(11, 9).T, False),  # transposed back, it has the elements in another shape
        (SQUARE, SQUARE.T, True),
        (WEIGHTS.reshape(1, 3, 33), WEIGHTS.T, True),
    ],
)
def test_codes_belong_to_their_weights_or_the_transpose(
    weights: Array, constant: Array, expected: bool
) -> None:
    assert coded(weights).is_source_of(np.ascontiguousarray(constant)) is expected


def test_distance_is_relative_to_the_norm_of_the_given_weights() -> None:
    table = WEIGHTS + np.float32(0.5)
    expected = np.linalg.norm(WEIGHTS - table) / np.linalg.norm(table)
    assert coded().distance(table) == pytest.approx(expected, 1e-5)
    assert coded().distance(WEIGHTS) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("shape", [(3, 0), (2, 33), (4, 33), (3, 65)])
def test_distance_of_other_shapes_is_infinite(shape: tuple[int, int]) -> None:
    assert coded().distance(np.ones(shape, np.float32)) == float("inf")


@pytest.mark.parametrize("width", [1, 64])
def test_distance_of_any_width_that_the_words_hold(width: int) -> None:
    assert coded().distance(np.ones((3, width), np.float32)) < float("inf")


def test_distance_to_zero_is_infinite() -> None:
    assert coded().distance(np.zeros((3, 33), np.float32)) == float("inf")
