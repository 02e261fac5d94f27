# SPDX-License-Identifier: Apache-2.0
"""What a picture shows, made real: operators whose operands are tried until their shape rules agree.

Most instances are what the picture wants; some differ in one place, which the matcher must see.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.enums import Activation, Named
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.cast import Cast
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite import Rewrite, Rules
from circlekit.rewrite.picture import Node, OperandPattern, Picture
from tools.random_graphs.maker import Maker, Reject
from tools.random_graphs.operands import proposal

TRIES = 30
"""How often the operands of one operator are chosen anew."""

MUTATED = 0.3

KINDS = (DType.FLOAT16, DType.FLOAT64, i32, DType.INT64)
"""What the data is where it is not f32, if the picture does not say."""


@cache
def pictures() -> tuple[Picture, ...]:
    """The pictures of all passes, those of the same pass side by side."""
    found: list[Picture] = []
    for item in all_passes().values():
        if issubclass(item, Rules):
            found += [rule.definition().before for rule in item.rules]
        elif issubclass(item, Rewrite) and not inspect.isabstract(item):
            found.append(item.definition().before)
    return tuple(found)


def is_made(picture: Picture, m: Maker) -> bool:
    """Whether an instance of ``picture`` comes to be."""
    try:
        Instance(m, picture).build()
    except Reject:
        return False
    return True


def instance(m: Maker) -> Value:
    """One picture as operators of the graph."""
    known = pictures()
    return Instance(m, known[m.below(len(known))]).build()


class Instance:
    """``values``: what the names of the picture stand for; ``dims``: its capital letters."""

    def __init__(self, m: Maker, picture: Picture) -> None:
        self.m = m
        self.picture = picture
        self.values: dict[str, Value | None] = {}
        self.dims: dict[str, int] = {}
        self.bound: dict[str, Any] = {}
        self.dtype = KINDS[m.below(len(KINDS))] if m.chance(0.15) else f32
        self.mutated = m.below(len(picture.nodes)) if m.chance(MUTATED) else -1

    def build(self) -> Value:
        last: Value | None = None
        for number, node in enumerate(self.picture.nodes):
            is_last = node is self.picture.root
            last = self.node(node, number == self.mutated, is_last)
        if last is None:
            raise Reject
        return last

    def node(self, node: Node, is_mutated: bool, is_last: bool) -> Value:
        """The operator of ``node``, with whatever operands fit first."""
        for _ in range(TRIES):
            values, dims, bound = dict(self.values), dict(self.dims), dict(self.bound)
            try:
                op = self.attempt(node, is_mutated)
                keep = is_last or self.m.chance(0.05)
                made = self.m.add(op, keep=keep)
            except (Reject, CirclekitError, ValueError, IndexError, TypeError, ArithmeticError):
                self.values, self.dims, self.bound = values, dims, bound
                continue
            self.values.update(zip(node.results, op.results, strict=False))
            return made
        raise Reject

    def attempt(self, node: Node, is_mutated: bool) -> Op:
        m = self.m
        kind = node.kinds[m.below(len(node.kinds))]
        patterns = list(enumerate(node.operands))
        chosen: dict[int, Value | None] = {}
        # what comes from before, and data, first: parameters follow from these
        late = "output_shape"  # it follows from the filter
        names = [spec.name for spec in kind.operands]
        order = sorted(patterns, key=lambda p: (self._rank(p[1]), names[p[0] : p[0] + 1] == [late]))
        for index, pattern in order:
            data = next((v for v in chosen.values() if v is not None and not v.is_const), None)
            chosen[index] = self.operand(kind, index, pattern, data)
        operands = [chosen[i] for i in range(len(patterns))]
        if is_mutated and kind.commutative and m.chance(0.3):
            operands[:2] = [operands[1], operands[0]]
        while operands and operands[-1] is None:
            operands.pop()
        if issubclass(kind, OpaqueOp):
            first = next(v for v in operands if v is not None)
            made = Value("", first.dtype, first.shape)
            return OpaqueOp(
                *operands, code="CUSTOM", custom_code=(node.custom or "").split("|")[0], results=[made]
            )
        return kind(*operands, **self.attributes(kind, node, operands, is_mutated))

    def _rank(self, pattern: OperandPattern) -> int:
        if pattern.name in self.values:
            return 0
        return 1 if pattern.name is not None and not pattern.const and not pattern.optional else 2

    # -- operands ------------------------------------------------------------------------------

    def operand(
        self, kind: type[Op], index: int, pattern: OperandPattern, data: Value | None
    ) -> Value | None:
        m = self.m
        spec = kind.operands[min(index, len(kind.operands) - 1)] if kind.operands else None
        dtypes = spec.dtypes if spec is not None else ()
        if pattern.name is None:
            dtype = dtypes[0] if dtypes else self.dtype if data is None else data.dtype
            array = np.asarray(pattern.literal)
            if array.ndim == 0 and m.chance(0.3):
                array = array.reshape((1,) * (1 + m.below(3)))
            return m.constant(array, "k", dtype.numpy)
        if pattern.name in self.values:
            return self.values[pattern.name]
        if pattern.optional and m.chance(0.5):
            self.values[pattern.name] = None
            return None
        name = spec.name if spec is not None else "x"
        whole = bool(dtypes) and f32 not in dtypes
        dtype = pattern.dtype or (dtypes[0] if whole else self.dtype)
        if not pattern.const and not whole and m.chance(0.9):
            value = self.from_pool(pattern, dtype, data)
        else:
            value = self.constant(kind, name, pattern, dtype, data)
        self.values[pattern.name] = value
        return value

    def from_pool(self, pattern: OperandPattern, dtype: DType, data: Value | None) -> Value:
        if dtype is not f32 and not any(v.dtype is dtype for v in self.m.pool):
            x = self.m.pick()
            self.m.add(Cast(x, in_data_type=f32, out_data_type=dtype))

        def fits(v: Value) -> bool:
            return pattern.dims is None or self.bind(pattern.dims, self.m.shape(v), dry=True)

        m = self.m
        if data is not None and m.chance(0.5):
            same = m.shape(data)
            value = m.pick(lambda v: fits(v) and m.shape(v) == same, dtype)
        else:
            value = m.pick(fits, dtype)
        if pattern.dims is not None:
            self.bind(pattern.dims, m.shape(value))
        return value

    def constant(
        self, kind: type[Op], name: str, pattern: OperandPattern, dtype: DType, data: Value | None
    ) -> Value:
        m = self.m
        array = np.asarray(proposal(m, kind, name, data, self.values, dtype))
        if pattern.dims is not None:
            shape = self.shape_of(pattern.dims, array.shape)
            array = m.random.normal(0, 1, shape) if dtype.is_float else m.random.integers(0, 3, shape)
        if dtype.is_float and m.chance(0.1):
            array = np.full(array.shape, m.number(0.0, 1.0, -1.0, 6.0, 0.5))
        return m.constant(array, name, dtype.numpy)

    def shape_of(self, dims: tuple[int | str, ...], near: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that ``dims`` allow: letters keep what they are, the others are as in ``near``."""
        m = self.m
        lead: list[int] = []
        if dims[:1] == ("*",):
            dims = dims[1:]
            lead = [1] * m.below(3)
        near = near[len(near) - len(dims) :] if len(near) >= len(dims) else (1,) * len(dims)
        shape = []
        for want, size in zip(dims, near, strict=True):
            if isinstance(want, int):
                shape.append(want)
                continue
            letter, _, other = want.partition("|")
            if other and m.chance(0.3):
                shape.append(int(other))
            elif letter == "_":
                shape.append(size)
            else:
                shape.append(self.dims.setdefault(letter, size))
        return (*lead, *shape)

    def bind(self, dims: tuple[int | str, ...], shape: tuple[int, ...], dry: bool = False) -> bool:
        """Note what ``shape`` says of the letters; whether it agrees with them."""
        if dims[:1] == ("*",):
            dims = dims[1:]
            shape = shape[len(shape) - len(dims) :]
        if len(dims) != len(shape):
            return False
        found = dict(self.dims)
        for want, size in zip(dims, shape, strict=True):
            if isinstance(want, int):
                if want != size:
                    return False
                continue
            letter, _, other = want.partition("|")
            if letter == "_" or (other and size == int(other)):
                continue
            if found.setdefault(letter, size) != size:
                return False
        if not dry:
            self.dims = found
        return True

    # -- attributes ----------------------------------------------------------------------------

    def attributes(
        self, kind: type[Op], node: Node, operands: list[Value | None], is_mutated: bool
    ) -> dict[str, Any]:
        m = self.m
        found: dict[str, Any] = dict(self._needed(kind, operands))
        for spec in kind.attributes:
            pattern = node.attributes.get(spec.name)
            if pattern is not None and pattern.choices is not None:
                found[spec.name] = pattern.choices[m.below(len(pattern.choices))]
            elif pattern is not None and pattern.bind in self.bound:
                found[spec.name] = self.bound[pattern.bind]
            elif (pattern is not None or spec.name in node.carried) and spec.name not in found:
                found[spec.name] = self._any(spec.default, spec.name)
            if pattern is not None and pattern.bind and spec.name in found:
                self.bound[pattern.bind] = found[spec.name]
        if is_mutated and kind.fuses_activation:
            found["act"] = (Activation.RELU, Activation.RELU6)[m.below(2)]
        return found

    def _needed(self, kind: type[Op], operands: list[Value | None]) -> Iterator[tuple[str, Any]]:
        """Attributes that follow from the operands."""
        names = {a.name for a in kind.attributes}
        if "values_count" in names:
            yield "values_count", len(operands)
        if "num_splits" in names:
            yield "num_splits", 1 + self.m.below(3)
        if kind.code == "FAKE_QUANT":
            yield from {"min": -6.0, "max": 6.0, "num_bits": 8}.items()
        if "in_data_type" in names and operands and operands[0] is not None:
            yield "in_data_type", operands[0].dtype
            yield "out_data_type", (f32, i32)[self.m.below(2)]

    def _any(self, default: Any, name: str) -> Any:
        m = self.m
        if isinstance(default, Activation):
            return (Activation.NONE, Activation.RELU, Activation.RELU6)[m.below(3)]
        if isinstance(default, bool):
            return m.chance(0.5)
        if isinstance(default, Named):
            members = list(type(default))
            return members[m.below(len(members))]
        if isinstance(default, int) and ("stride" in name or "dilation" in name or "multiplier" in name):
            return 1 + m.below(2)
        if name.endswith("_mask"):
            return 1 << m.below(3) if m.chance(0.3) else 0
        if isinstance(default, int) and "axis" in name:
            return m.below(4) - 2
        return default
