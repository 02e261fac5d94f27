# SPDX-License-Identifier: Apache-2.0
"""Make a model that matches a picture: try sizes and numbers until the pass rewrites it."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import DType, f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.text.syntax import Symbol
from circlekit.ir.value import Value
from circlekit.ir.verifier import verify
from circlekit.ops.arithmetic.unary import Neg
from circlekit.ops.convolution.conv import Conv2D
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.rewrite.base import Context
from circlekit.rewrite.picture import Node, OperandPattern
from circlekit.rewrite.rewrite import Rewrite

T = TypeVar("T")

TRIES = 400
"""The largest number of models that are made for one picture."""

SHAPES = ([1, 4, 4, 4], [1, 4, 4, 4], [2, 3, 4], [2, 4], [1, 1, 4, 4], [4, 2, 1, 4])
"""Shapes of data for which the picture gives no shape."""

VECTORS: dict[str, list[list[Any]]] = {
    "axis": [[1, 2], [-1], [1], [2], [0], [3], [2, 3]],
    "perm": [[0, 3, 1, 2], [0, 2, 1], [0, 1, 2, 3], [0, 2, 3, 1], [1, 0], [0, 1, 3, 2], [0, 1, 2], [0, 1]],
    "shape": [
        [1, 4, 4, 4],
        [1, 4, 4, 4, 1],
        [1, 16, 4],
        [2, 12],
        [6, 4],
        [2, 3, 4],
        [2, 4],
        [4, 4],
        [8],
        [4, 8],
    ],
    "paddings": [[[0, 0], [1, 2], [2, 1], [0, 0]], [[0, 0]] * 4, [[0, 0]] * 2, [[0, 0]] * 3],
    "begin": [[0, 1, 2, 0], [0, 0, 0, 0], [0, 0], [0, 1, 0], [0, 0, 0]],
    "size": [[1, 4, 4, 4], [2, 4], [2, 3, 4], [1, 3, 3, 4], [1, 2, 2, 1]],
    "end": [[1, 5, 6, 4], [2, 4], [2, 3, 4], [1, 4, 4, 4]],
    "strides": [[1, 1, 1, 1], [1, 1], [1, 1, 1]],
    "block_shape": [[2, 2]],
    "crops": [[[0, 0], [0, 0]]],
    "multiples": [[1, 1], [1, 1, 1], [1, 1, 1, 1]],
}
"""Constants for operands of whole numbers, by the name of the operand."""

ALSO = {"output_shape": "shape", "squeeze_dims": "axis", "dim": "axis", "split_dim": "axis"}
"""Operands that take the constants of another operand in VECTORS."""

NUMBERS = {
    "three": (3.0,), "six": (6.0,), "sixth": (1 / 6,), "eps": (1e-6,), "cubic": (0.044715,),
    "root": (0.5**0.5, 2**0.5, (2 / np.pi) ** 0.5),
}  # fmt: skip
"""The numbers with which constants of these names are filled."""

PLACES: dict[str, list[Any]] = {
    "pads": [[2, 2], [2, 2]],
    "crops": [[0, 0], [0, 0]],
    "to": [1, 4, 4, 4, 1],
    "back": [1, 4, 4, 4],
}
"""The elements of integer constants with these names."""

COMMON = (0.0, 1.0, None)
"""The numbers with which other constants are filled; None stands for random numbers."""

BEFORE = (None, "Neg", "Conv2D", "FullyConnected")
"""The operator that computes the data that a picture begins with; None: that data is an input."""


def model_of(rule: type[Rewrite], format: str = "circle") -> Model | None:
    """Return a model that ``rule`` rewrites, or None if none was found."""
    random = np.random.default_rng(zlib.crc32((rule.__qualname__ + rule.before).encode()))
    for _ in range(TRIES):
        try:
            model = _Maker(rule, random).model()
        except (CirclekitError, ValueError, IndexError, TypeError):
            continue
        model.format = format
        try:
            if verify(model):
                continue
            check_shapes(model)
        except CirclekitError:
            continue
        if rule().run(clone(model), Context(format)):
            return model
    return None


class _Maker:
    """Builds one model from the picture of ``rule``, with random choices.

    ``letters``: the size of every dimension that the picture names by a letter.  ``values``: the values by
    their names in the picture.  ``symbols``: the attribute values to which the picture gives names.
    ``data_shape``: the shape of data for which the picture gives none.  ``before``: one of BEFORE.
    """

    def __init__(self, rule: type[Rewrite], random: np.random.Generator) -> None:
        self.picture = rule.definition().before
        self.random = random
        self.sizes: dict[str, int] = {}
        self.values: dict[str, Value | None] = {}
        self.symbols: dict[str, Any] = {}
        self.graph = Graph("main")
        self.inputs: list[Value] = []
        self.count = itertools.count()
        self.data_shape = self.choice(SHAPES[:1] if "back" in self.picture.operand_names() else SHAPES)
        self.before = self.choice(BEFORE)
        self.letters = self.choice((4, 4, 4, 16))
        self.vectors: dict[str, list[Any]] = {}

    def choice(self, items: Sequence[T]) -> T:
        return items[int(self.random.integers(len(items)))]

    def model(self) -> Model:
        for node in self.picture.nodes:
            self.node(node)
        self.graph.inputs = self.inputs
        results = [self.values[name] for name in self.picture.root.results]
        self.graph.outputs = [self.behind(v) for v in results if v is not None]
        return Model([self.graph])

    def behind(self, value: Value) -> Value:
        """Return the output of the model that stands for ``value``, a result of the picture.

        For f32 it is the result of an added NEG, so that ``value`` itself can be replaced.
        """
        if value.dtype is not f32:
            return value
        last = Neg(value)
        last.output.name = f"{value.name}_out"
        return self.graph.append(last).output

    def data(self, name: str, dtype: DType, shape: list[int]) -> Value:
        """Return an input, or the result of an operator on one."""
        value = Value(name, dtype, tuple(shape))
        self.inputs.append(value)
        if dtype is not f32 or self.before is None or not shape:
            return value
        value.name = f"{name}_in"
        weights: list[int] = [shape[-1], 1, 1, shape[-1]] if self.before == "Conv2D" else [shape[-1]] * 2
        w = Value.constant(f"{name}_w", self.random.uniform(-1, 1, weights).astype(np.float32))
        made: Op
        if self.before == "Conv2D" and len(shape) == 4:
            made = Conv2D(value, w, None)
        elif self.before == "FullyConnected":
            made = FullyConnected(value, w, None, keep_num_dims=True)
        else:
            made = Neg(value)
        made.output.name = name
        return self.graph.append(made).output

    def node(self, node: Node) -> None:
        """Append one of the operators that ``node`` allows to the graph."""
        kind = self.choice(node.kinds)
        operands = [self.operand(node, kind, i, pattern) for i, pattern in enumerate(node.operands)]
        while operands and operands[-1] is None:
            operands.pop()
        if kind is OpaqueOp:
            like = operands[0]
            assert like is not None
            result, custom = Value("", like.dtype, like.shape), self.choice((node.custom or "").split("|"))
            op: Op = OpaqueOp(*operands, code="CUSTOM", custom_code=custom, results=[result])
        else:
            op = kind(*operands, **dict(self.attributes(node, kind)))
        for name, value in zip(node.results, op.results, strict=False):
            value.name = name
            self.values[name] = value
        self.graph.append(op)

    def attributes(self, node: Node, kind: Any) -> Iterator[tuple[str, Any]]:
        for name, pattern in node.attributes.items():
            default = next(a.default for a in kind.attributes if a.name == name)
            value = default
            if pattern.choices:
                value = self.choice(pattern.choices)
            elif isinstance(default, bool) and self.random.integers(2):
                value = not default
            elif isinstance(default, float):
                value = 0.01
            elif name == "output_type":
                value = DType.INT32
            if pattern.bind:
                value = self.symbols.setdefault(pattern.bind, value)
            if not isinstance(value, Symbol):
                yield name, value

    def operand(self, node: Node, kind: Any, index: int, pattern: OperandPattern) -> Value | None:
        """Return the value for operand ``index`` of an operator of class ``kind``; None if it is absent."""
        spec = kind.operands[min(index, len(kind.operands) - 1)] if kind.operands else None
        dtypes = spec.dtypes if spec is not None else ()
        if pattern.name is None:
            literal = np.asarray(pattern.literal)
            dtype = dtypes[0].numpy if dtypes and f32 not in dtypes else np.dtype(np.float32)
            return Value.constant(f"k{next(self.count)}", literal.astype(dtype))
        if pattern.name in self.values:
            return self.values[pattern.name]
        if pattern.optional and spec is not None and spec.name != "shape" and self.random.integers(2):
            self.values[pattern.name] = None
            return None
        whole = bool(dtypes) and all(d.numpy is not None and d.numpy.kind in "iu" for d in dtypes)
        if whole and spec is not None:
            value = self.vector(spec.name, pattern.name)
        elif pattern.const:
            value = self.constant(pattern)
        else:
            shape = self.shape(pattern, self.data_shape)
            if pattern.dims is None and len(shape) == 4 and not self.random.integers(4):
                shape = [shape[0], 1, *shape[2:]]  # other data may have more matrices
            value = self.data(pattern.name, pattern.dtype or f32, shape)
        self.values[pattern.name] = value
        return value

    def constant(self, pattern: OperandPattern) -> Value:
        """Return a constant that fits ``pattern``, filled with one number or with random ones."""
        channels = self.data_shape[-1]
        one = [1] * (len(self.data_shape) - 1)
        shape = self.shape(pattern, self.choice([[], [1], [channels], [*one, channels], [1, channels, 1, 1]]))
        assert pattern.name is not None
        number = self.choice(NUMBERS.get(pattern.name, COMMON))
        random = self.random.uniform(0.5, 2, shape)
        data = random if number is None else np.full(shape, number)
        return Value.constant(pattern.name, data.astype((pattern.dtype or f32).numpy))

    def vector(self, operand: str, name: str) -> Value:
        """Return a constant of whole numbers for the operand ``operand``, called ``name`` in the picture.

        Permutations, paddings and parameters of slices fit the rank of the data where VECTORS has such
        constants.  With a probability of 2/3, the constant is that of an earlier operand of this kind.
        """
        key = ALSO.get(operand, operand)
        known = VECTORS.get(key) or VECTORS["axis"]
        if key in ("perm", "paddings", "begin", "size", "end", "strides", "multiples"):
            known = [v for v in known if len(v) == len(self.data_shape)] or known
        numbers = self.vectors.setdefault(key, self.choice(known))
        if name in PLACES:
            numbers = PLACES[name]
        elif self.random.integers(3) == 0:
            numbers = self.choice(known)
        array = np.asarray(numbers, np.int32)
        return Value.constant(name, array.reshape(()) if key == "axis" and operand == "split_dim" else array)

    def shape(self, pattern: OperandPattern, default: list[int]) -> list[int]:
        if pattern.dims is None:
            return default
        return [self.size(d) for d in pattern.dims if d != "*"]

    def size(self, dim: int | str) -> int:
        if isinstance(dim, int):
            return dim
        if dim == "_":
            return self.choice([4, 4, 2, 1])
        letter = dim.split("|")[0]
        return self.sizes.setdefault(letter, self.letters)
