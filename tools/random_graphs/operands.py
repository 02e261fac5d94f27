# SPDX-License-Identifier: Apache-2.0
"""Likely contents for an operand, from its name in the operator's declaration and from the data beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.convolution.conv import DepthwiseConv2D
from tools.random_graphs.maker import Maker
from tools.random_graphs.parts import NCHW, NHWC, broadcast_form

Shape = tuple[int, ...]


def proposal(
    m: Maker, kind: type[Op], name: str, data: Value | None, values: Mapping[str, Value | None], dtype: DType
) -> Any:
    """An array for operand ``name`` of ``kind``; ``data``: an operand that is chosen already."""
    shape = m.shape(data) if data is not None else (2, 3, 4, 4)[m.below(3) :]
    if name == "output_shape" and len(shape) == 4:
        return _size_of_transposed(m, shape, values)
    if name in INTEGERS and not dtype.is_float:
        return INTEGERS[name](m, shape)
    if name == "filter":
        return m.random.normal(0, 0.5, _filter(m, kind, shape))
    if name in ("weights", "weight"):
        return m.random.normal(0, 0.5, (1 + m.below(4), shape[-1] if shape else 1))
    if name in ("bias", "gamma", "beta"):
        beside = [v for v in values.values() if v is not None and v.is_const and len(v.shape or ()) in (2, 4)]
        outputs = m.shape(beside[-1])[0] if beside and name == "bias" else shape[-1] if shape else 1
        return m.random.normal(0, 1, (outputs,))
    form = broadcast_form(m, shape)
    if not dtype.is_float:
        return m.random.integers(-3, 4, form)
    return m.random.uniform(0.2, 2, form) * m.random.choice([1.0, -1.0, 1.0], form)


def _filter(m: Maker, kind: type[Op], shape: Shape) -> Shape:
    channels = shape[-1] if shape else 1
    if issubclass(kind, DepthwiseConv2D):
        return 1, 1 + m.below(3), 1 + m.below(3), channels * (1 + m.below(2))
    return 1 + m.below(4), 1 + m.below(3), 1 + m.below(3), channels


def _size_of_transposed(m: Maker, shape: Shape, values: Mapping[str, Value | None]) -> Any:
    """Of a transposed convolution, for strides of 1 or 2, without padding or with that of SAME."""
    filters = [v.static_shape for v in values.values() if v is not None and v.is_const and v.rank == 4]
    outputs, height, width, _ = filters[-1] if filters else (1, 1, 1, 1)
    step = 1 + m.below(2)
    if m.chance(0.5):
        return shape[0], shape[1] * step, shape[2] * step, outputs
    return shape[0], (shape[1] - 1) * step + height, (shape[2] - 1) * step + width, outputs


def _strides(m: Maker, shape: Shape) -> Any:
    return [m.below(2) + 1 if m.chance(0.2) else -1 if m.chance(0.05) else 1 for _ in shape]


def _perm(m: Maker, shape: Shape) -> Any:
    if len(shape) == 4 and m.chance(0.7):
        return NHWC if m.chance(0.5) else NCHW
    return m.random.permutation(len(shape))


def _shape(m: Maker, shape: Shape) -> Any:
    """The same elements otherwise: dimensions merged, split off, in another order."""
    found = [int(d) for d in shape]
    kind = m.below(5)
    if kind == 0:
        return m.random.permutation(found)
    if kind == 1 and len(found) > 1:
        at = m.below(len(found) - 1)
        found[at : at + 2] = [found[at] * found[at + 1]]
    elif kind == 2:
        found.insert(m.below(len(found) + 1), 1)
    elif kind == 3:
        return [d for d in found if d != 1]
    return found


def _axes(m: Maker, shape: Shape) -> Any:
    rank = max(len(shape), 1)
    kind = m.below(5)
    if kind == 0:
        return m.below(rank) - rank * m.below(2)
    if kind == 1 and rank == 4:
        return [1, 2] if m.chance(0.5) else [2, 3]
    if kind == 2:
        return [rank - 1 - rank * m.below(2)]
    return np.sort(m.random.permutation(rank)[: 1 + m.below(rank)])


def _axis(m: Maker, shape: Shape) -> Any:
    rank = max(len(shape), 1)
    return m.below(rank) - rank * m.below(2)


def _begin(m: Maker, shape: Shape) -> Any:
    return [m.below(d) if m.chance(0.2) else 0 for d in shape]


def _size(m: Maker, shape: Shape) -> Any:
    return [-1 if m.chance(0.4) else d for d in shape]


def _ones(m: Maker, shape: Shape) -> Any:
    return np.ones(len(shape))


def _paddings(m: Maker, shape: Shape) -> Any:
    count = 2 if len(shape) == 4 and m.chance(0.3) else len(shape)
    return m.random.integers(0, 2, (count, 2)) * m.below(2)


def _block(m: Maker, shape: Shape) -> Any:
    return [1 + m.below(2), 1 + m.below(2)]


def _pairs(m: Maker, shape: Shape) -> Any:
    return m.random.integers(0, 3, (2, 2))


INTEGERS: dict[str, Callable[[Maker, Shape], Any]] = {
    "perm": _perm, "shape": _shape, "new_shape": _shape, "axis": _axes, "dim": _axis, "dimension": _axis,
    "split_dim": _axis, "begin": _begin, "size": _size, "end": _size, "strides": _strides,
    "paddings": _paddings, "crops": _pairs, "block_shape": _block, "multiples": _ones,
}  # fmt: skip
