# SPDX-License-Identifier: Apache-2.0
"""Read binary-coded quantized (BCQ) weights, which ONE stores in extra outputs of a model.

A row of BCQ weights is the sum of some code rows of +1 and -1, each multiplied by a scale of its own.  A
cluster is a group of rows with equally many code rows (bits).  Before a TensorFlow model is converted, ONE's
tools add outputs to it: a marker, and for each coded constant a bundle of constants.  The outputs are then:

    0                      marker, i32: START, version 1, number of original outputs, size of a bundle, END
    1 ...                  the original outputs
    then, bundle by bundle:
      do_w_x               bool: whether the model computes W x or x W (not read: the shapes determine it)
      alpha                f32 [code rows]: the scales
      packed_binary_code   i32 [code rows, words]: a bit for each column
      number_of_clusters   i32: n
      size_of_clusters     i32 [n]: the rows of each cluster
      qbits_of_clusters    i32 [n]: the bits of each cluster
      the original weights, as the model uses them
      dequant_weight       the decoded weights; not in every model

The three items about clusters may have one more number at the end, which has no meaning: ONE adds it so that
no two constants are equal.  Everything is checked before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from circlekit.errors import counted
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.graph import Graph
from circlekit.ir.value import Array, Value
from circlekit.ops.matmul.circle_layers import CODES_PER_WORD, decoded
from circlekit.ops.movement.shape import Reshape

START, END = -2_000_000_000 + 27, 2_000_000_000 - 27
"""The first and the last number of a marker."""

VERSION = 1

MAX_RELATIVE_ERROR = 0.9
"""Codes whose ``Coded.distance`` from weights is at least this do not belong to these weights.

With one bit per weight, the distance from the weights that were coded is about 0.5 if they are uniform, 0.6
if they are normal and 0.7 if they have a Laplace distribution; each further bit makes it smaller.  From other
weights it is about 1 or more.
"""


class Item(IntEnum):
    """Positions in a bundle; a further item, ``dequant_weight``, is not read."""

    DO_W_X, ALPHA, BINARY, NUMBER, ROWS, BITS, WEIGHTS = range(7)


@dataclass(eq=False, repr=False)
class Coded:
    """A coded constant: the original ``weights`` of the model, and the operands of the BCQ operators.

    ``scales`` [code rows]; ``binary`` [code rows, words]; ``clusters`` [n, 2]: (bits, rows) of each cluster.
    """

    name: str
    weights: Array
    scales: Array
    binary: Array
    clusters: Array

    @property
    def rows(self) -> int:
        """The number of rows of the decoded weights."""
        return int(self.clusters[:, 1].sum())

    def is_source_of(self, constant: Array) -> bool:
        """Return whether ``constant`` equals ``weights``, or is their transpose.

        If ``weights`` are no matrix, the transpose may have any shape: ``constant.T`` and ``weights``, both
        flattened in row-major order, must be equal.
        """
        if constant.size != self.weights.size:
            return False
        if constant.shape == self.weights.shape and np.array_equal(constant, self.weights):
            return True
        if self.weights.ndim == 2 and self.weights.shape != constant.shape[::-1]:
            return False
        return bool(np.array_equal(constant.T.reshape(-1), self.weights.reshape(-1)))

    def distance(self, weights: Array) -> float:
        """Return the distance of the decoded weights from ``weights`` [rows, columns].

        It is the norm of the difference divided by the norm of ``weights``; inf if the shapes do not fit, or
        if all weights are 0.
        """
        if weights.shape[0] != self.rows or not 0 < weights.shape[1] <= self.binary.shape[1] * CODES_PER_WORD:
            return float("inf")
        found = decoded(self.scales, self.binary, self.clusters, weights.shape[1])
        norm = float(np.linalg.norm(weights))
        return float(np.linalg.norm(found - weights)) / norm if norm else float("inf")


@dataclass(eq=False, repr=False)
class Info:
    """The result of ``read_info`` for the outputs of a graph.

    ``outputs``: the original outputs.  ``coded``: the coded constants.  ``wrong``: a sentence for each
    invalid bundle.
    """

    outputs: Sequence[Value]
    coded: Sequence[Coded]
    wrong: Sequence[str] = ()


def read_info(graph: Graph) -> Info | str | None:
    """Return the coded constants of ``graph``; None if output 0 is not a marker.

    Return a sentence if output 0 is a marker with wrong numbers, or if its numbers do not fit the outputs.
    """
    mark = _constant(graph.outputs[0], i32) if graph.outputs else None
    # a marker has 5 numbers; one with only 4 gets a sentence below
    if mark is None or mark.size < 4 or (mark.reshape(-1)[[0, -1]] != (START, END)).any():
        return None
    version, count, size = (int(n) for n in mark.reshape(-1)[1:4])
    name = f"%{graph.outputs[0].name}"
    if version != VERSION:
        return f"{name}: expected version {VERSION} of the codes, got {version}"
    rest = graph.outputs[1 + count :]
    found = len(graph.outputs) - 1
    if mark.size < 5 or size <= Item.WEIGHTS or count < 0 or found < count:
        announced = f"announces {counted(count, 'output')} and bundles of {size}"
        return f"{name}: {announced}, got {counted(found, 'output')}"
    if len(rest) % size:
        return f"{name}: announces bundles of {size}, got {counted(len(rest), 'output')} for them"
    bundles = [_coded(rest[at : at + size]) for at in range(0, len(rest), size)]
    coded = [bundle for bundle in bundles if isinstance(bundle, Coded)]
    wrong = [bundle for bundle in bundles if isinstance(bundle, str)]
    return Info(graph.outputs[1 : 1 + count], coded, wrong)


def _constant(value: Value, *dtypes: object) -> Array | None:
    """Return the data of the constant ``value``, or of the constant that a Reshape turns into ``value``.

    The constant must be plain (not packed, sparse or compressed) and have one of ``dtypes``.  If there is no
    such constant, return None.
    """
    if isinstance(value.producer, Reshape):
        value = value.producer.input
    return value.array() if value.is_plain and value.dtype in dtypes else None


def _coded(bundle: Sequence[Value]) -> Coded | str:
    """Return the coded constant of a bundle, or a sentence if the bundle is invalid."""
    kinds = {Item.ALPHA: f32, Item.BINARY: i32, Item.NUMBER: i32, Item.ROWS: i32, Item.BITS: i32}
    arrays = {}
    for item, dtype in {**kinds, Item.WEIGHTS: f32}.items():
        array = _constant(bundle[item], dtype)
        if array is None:
            return f"%{bundle[item].name}: expected a constant of {dtype.short}, got {bundle[item].type}"
        arrays[item] = array
    name = bundle[Item.WEIGHTS].name
    number, bits, rows = (arrays[item].reshape(-1) for item in (Item.NUMBER, Item.BITS, Item.ROWS))
    n = int(number[0]) if number.size else 0  # further numbers have no meaning
    if not 1 <= n <= min(bits.size, rows.size) or min(bits[:n].min(), rows[:n].min()) <= 0:
        # a damaged file may have very many clusters
        found = f"number {n}, bits {bits[:8].tolist()} and rows {rows[:8].tolist()}"
        return f"%{name}: expected clusters with bits and rows above 0, got {found}"
    clusters = np.stack([bits[:n], rows[:n]], axis=1).astype(np.int32)
    codes = int(clusters.prod(axis=1).sum())  # bits * rows of each cluster
    scales, binary = arrays[Item.ALPHA].reshape(-1), arrays[Item.BINARY]
    if binary.ndim != 2 or binary.shape[0] != codes or scales.size != codes:
        found = f"{scales.size} scales and codes of shape {list(binary.shape)}"
        return f"%{name}: expected {codes} codes and scales for its clusters, got {found}"
    return Coded(name, arrays[Item.WEIGHTS], scales, binary, clusters)
