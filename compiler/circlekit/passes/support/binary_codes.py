# SPDX-License-Identifier: Apache-2.0
"""Binary codes of weights, as extra outputs of a model carry them.

ONE's tools add to the outputs of a TensorFlow model, before it is converted, a mark and for each coded
constant a bundle of constants:

    0                      i32: START, version 1, number of real outputs, size of a bundle, END
    1 ...                  the real outputs
    then, bundle by bundle:
      do_w_x               bool: whether the model multiplies W x, not x W (told by the shapes, too)
      alpha                f32 [codes]
      packed_binary_code   i32 [codes, words]
      number_of_clusters, size_of_clusters, qbits_of_clusters     i32, at times with a number more
      the constant that is coded, as the model uses it
      dequant_weight       the constant that the codes give; not in every model

Over 120 lines because nothing of this is believed before it is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from circlekit.ir.dtypes import f32, i32
from circlekit.ir.graph import Graph
from circlekit.ir.value import Array, Value
from circlekit.ops.matmul.bcq import WORD, decoded
from circlekit.ops.movement.shape import Reshape

START, END = -2_000_000_000 + 27, 2_000_000_000 - 27
VERSION = 1

FAR = 0.9
"""The least distance, in parts of the weights' norm, at which codes stand for something else.

One bit leaves 0.5 to 0.6 of the norm of usual weights, each further bit half of it; codes of other weights
are 1 away or more.
"""


class Item(IntEnum):
    """The places in a bundle."""

    DO_W_X, ALPHA, BINARY, NUMBER, ROWS, BITS, WEIGHTS = range(7)


@dataclass(eq=False, repr=False)
class Coded:
    """A coded constant: ``weights`` as the model has it; the operands of the operators that use the codes."""

    name: str
    weights: Array
    scales: Array
    binary: Array
    clusters: Array

    @property
    def rows(self) -> int:
        return int(self.clusters[:, 1].sum())

    def is_source_of(self, constant: Array) -> bool:
        """Whether ``constant`` [a, b] is ``weights``, or its transpose: as a converter may have left it."""
        if constant.size != self.weights.size:
            return False
        if constant.shape == self.weights.shape and np.array_equal(constant, self.weights):
            return True
        if self.weights.ndim == 2 and self.weights.shape != constant.shape[::-1]:
            return False
        return bool(np.array_equal(constant.T.reshape(-1), self.weights.reshape(-1)))

    def distance(self, table: Array) -> float:
        """How far the codes are from ``table`` [rows, hidden], in parts of its norm; infinite for no fit."""
        if table.shape[0] != self.rows or not 0 < table.shape[1] <= self.binary.shape[1] * WORD:
            return float("inf")
        found = decoded(self.scales, self.binary, self.clusters, table.shape[1])
        norm = float(np.linalg.norm(table))
        return float(np.linalg.norm(found - table)) / norm if norm else float("inf")


@dataclass(eq=False, repr=False)
class Info:
    """What the outputs of a graph tell: the real ones, the coded constants, and what is wrong with others."""

    outputs: Sequence[Value]
    coded: Sequence[Coded]
    wrong: Sequence[str] = ()


def read_info(graph: Graph) -> Info | str | None:
    """None where no output is a mark; a sentence for a mark that is not understood."""
    mark = _constant(graph.outputs[0], i32) if graph.outputs else None
    if mark is None or mark.size < 4 or (mark.reshape(-1)[[0, -1]] != (START, END)).any():
        return None
    version, count, size = (int(n) for n in mark.reshape(-1)[1:4])
    name = f"%{graph.outputs[0].name}"
    if version != VERSION:
        return f"{name}: is of version {version} of the codes, {VERSION} is wanted"
    rest = graph.outputs[1 + count :]
    if mark.size < 5 or size <= Item.WEIGHTS or count < 0 or len(graph.outputs) < 1 + count:
        return f"{name}: tells of {count} outputs and bundles of {size}, there are {len(graph.outputs) - 1}"
    if len(rest) % size:
        return f"{name}: tells of bundles of {size}, {len(rest)} outputs are left for them"
    bundles = [_coded(rest[at : at + size]) for at in range(0, len(rest), size)]
    coded = [bundle for bundle in bundles if isinstance(bundle, Coded)]
    wrong = [bundle for bundle in bundles if isinstance(bundle, str)]
    return Info(graph.outputs[1 : 1 + count], coded, wrong)


def _constant(value: Value, *dtypes: object) -> Array | None:
    """The data of a constant, or of one that an operator reshapes: converters make such outputs."""
    if isinstance(value.producer, Reshape):
        value = value.producer.input
    return value.array() if value.is_plain and value.dtype in dtypes else None


def _coded(bundle: Sequence[Value]) -> Coded | str:
    kinds = {Item.ALPHA: f32, Item.BINARY: i32, Item.NUMBER: i32, Item.ROWS: i32, Item.BITS: i32}
    arrays = {}
    for item, dtype in {**kinds, Item.WEIGHTS: f32}.items():
        array = _constant(bundle[item], dtype)
        if array is None:
            return f"%{bundle[item].name}: is {bundle[item].type}, a constant of {dtype.short} is wanted"
        arrays[item] = array
    name = bundle[Item.WEIGHTS].name
    clusters = _clusters(*(arrays[item].reshape(-1) for item in (Item.NUMBER, Item.BITS, Item.ROWS)))
    codes = 0 if clusters is None else int(clusters.prod(axis=1).sum())
    scales, binary = arrays[Item.ALPHA].reshape(-1), arrays[Item.BINARY]
    if clusters is None or binary.ndim != 2 or binary.shape[0] != codes or scales.size != codes:
        found = f"{scales.size} scales and codes of shape {list(binary.shape)}"
        return f"%{name}: has {found}, its clusters want {codes}"
    return Coded(name, arrays[Item.WEIGHTS], scales, binary, clusters)


def _clusters(number: Array, bits: Array, rows: Array) -> Array | None:
    """i32 [n, 2] of bits and rows; numbers behind the first n only told equal constants apart."""
    n = int(number[0]) if number.size else 0
    if n < 1 or bits.size < n or rows.size < n:
        return None
    clusters = np.stack([bits[:n], rows[:n]], axis=1).astype(np.int32)
    return clusters if (clusters > 0).all() else None
