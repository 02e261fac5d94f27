# SPDX-License-Identifier: Apache-2.0
"""Make random models from random operators and from instances of the pictures of passes.

A picture is a small graph as text; a pass rewrites operators that match its picture.  An instance of a
picture is a group of operators that match it.  Operands are drawn at random until shape rules accept them.
Some instances differ from the picture in one operator; with these, tests find a pass that rewrites too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.cast import Cast
from circlekit.passes.engine.describe import rules_of
from circlekit.rewrite.base import Pass
from circlekit.rewrite.match import unify
from circlekit.rewrite.picture import Node, OperandPattern, Picture
from circlekit.testing.model_builder import ModelBuilder, Rejected
from circlekit.testing.random_attributes import derived_attributes, random_attribute
from circlekit.testing.random_constants import proposal
from circlekit.testing.random_operators import ATTEMPTS, random_operator


def random_model(seed: int, passes: Sequence[type[Pass]] = (), steps: int = 8) -> tuple[Model, list[Array]]:
    """Return (a random model, arrays for its inputs); the same arguments always give the same model.

    The model runs with these inputs.
    ``passes``: if they have pictures, about half of the ``steps`` insert operators that match, or nearly
    match, one of these pictures.  The remaining steps insert one random operator each.  A step ends early at
    an operator for which no operands fit.
    """
    builder = ModelBuilder.of_seed(seed)  # has the inputs
    builder.random = np.random.default_rng([seed, 1])  # for the operators
    pictures = pictures_of(passes)
    for _ in range(steps):
        with suppress(Rejected):
            if pictures and builder.chance(0.5):
                add_instance(builder, pictures[builder.below(len(pictures))])
            else:
                random_operator(builder)
    return builder.model()


MUTATION_PROBABILITY = 0.3
"""The probability that one operator of an instance may differ from the picture."""

OTHER_DTYPES = (DType.FLOAT16, DType.FLOAT64, i32, DType.INT64)
"""The dtypes besides f32 that operands may have if the picture states no dtype and the operator takes f32."""


def pictures_of(passes: Iterable[type[Pass]]) -> tuple[Picture, ...]:
    """Return the left-hand pictures (``before``) of all ``passes`` that are rewrites."""
    return tuple(rule.definition().before for item in passes for rule in rules_of(item))


def add_instance(m: ModelBuilder, picture: Picture) -> Value:
    """Append the operators of ``picture`` to the graph of the builder ``m``; return the last result.

    Raise Rejected if an operator does not fit; the operators before it stay in the graph.
    """
    instance = _Instance(m, picture)
    return [instance.node(node, i == instance.mutated) for i, node in enumerate(picture.nodes)][-1]


class _Instance:
    """An instance of a picture.  The builder ``m`` appends its operators to the graph.

    ``values``, ``dims``, ``bound``: the choices so far, by their names in the picture: operands (None: left
    out), sizes of dimensions, values of attributes.
    ``dtype``: the dtype of operands of which the picture states none, if the operator takes f32.
    ``mutated``: the index of the operator that may differ from the picture; -1: none.
    In the methods, ``node`` is an operator of the picture, and ``kind`` the class of an operator.
    """

    def __init__(self, m: ModelBuilder, picture: Picture) -> None:
        self.m = m
        self.picture = picture
        self.values: dict[str, Value | None] = {}
        self.dims: dict[str, int] = {}
        self.bound: dict[str, Any] = {}
        self.dtype = OTHER_DTYPES[m.below(len(OTHER_DTYPES))] if m.chance(0.15) else f32
        self.mutated = m.below(len(picture.nodes)) if m.chance(MUTATION_PROBABILITY) else -1

    def node(self, node: Node, is_mutated: bool) -> Value:
        """Append the operator of ``node`` with the first random operands that fit; return its result.

        ``is_mutated``: the operator may differ from ``node``.  Raise Rejected after ATTEMPTS attempts.
        """
        for _ in range(ATTEMPTS):
            saved = dict(self.values), dict(self.dims), dict(self.bound)
            try:
                op = self.operator(node, is_mutated)
                # other operators seldom use an interior result, because then the picture would not match
                made = self.m.add(op, keep=node is self.picture.root or self.m.chance(0.05))
            except (Rejected, CirclekitError, ValueError, IndexError, TypeError, ArithmeticError):
                self.values, self.dims, self.bound = saved
                continue
            self.values.update(zip(node.results, op.results, strict=False))
            return made
        raise Rejected

    def operator(self, node: Node, is_mutated: bool) -> Op:
        """Return an operator for ``node`` with random operands; it may be invalid."""
        m = self.m
        kind = node.kinds[m.below(len(node.kinds))]
        names = [spec.name for spec in kind.operands]
        chosen: dict[int, Value | None] = {}

        def order(item: tuple[int, OperandPattern]) -> tuple[bool, ...]:
            """Return a sort key: first operands already chosen, then data, parameters, sizes of results."""
            index, pattern = item
            is_parameter = pattern.name is None or pattern.const or pattern.optional
            is_size = names[index : index + 1] == ["output_shape"]
            return pattern.name not in self.values, is_parameter, is_size

        for index, pattern in sorted(enumerate(node.operands), key=order):
            data = next((v for v in chosen.values() if v is not None and not v.is_const), None)
            chosen[index] = self.operand(kind, index, pattern, data)
        operands = [chosen[i] for i in range(len(node.operands))]
        if is_mutated and kind.commutative and m.chance(0.3):
            operands[:2] = [operands[1], operands[0]]
        while operands and operands[-1] is None:
            operands.pop()
        if issubclass(kind, OpaqueOp):  # a custom operator, written ``Custom`` in the picture
            first = next(v for v in operands if v is not None)
            custom = (node.custom or "").split("|")[0]
            results = [Value("", first.dtype, first.shape)]
            return OpaqueOp(*operands, code="CUSTOM", custom_code=custom, results=results)
        return kind(*operands, **self.attributes(kind, node, operands, is_mutated))

    # -- operands ------------------------------------------------------------------------------

    def operand(
        self, kind: type[Op], index: int, pattern: OperandPattern, data: Value | None
    ) -> Value | None:
        """Return operand ``index`` for ``pattern``; None if the operand is optional and left out.

        ``data``: the first chosen operand that is not a constant, None if there is none yet.
        """
        m = self.m
        spec = kind.operand_spec(index)
        dtypes = spec.dtypes if spec is not None else ()
        if pattern.name is None:
            dtype = self.dtype if data is None else data.dtype
            if dtypes and dtype not in dtypes:
                dtype = dtypes[0]
            array = np.asarray(pattern.literal)
            if array.ndim == 0 and m.chance(0.3):  # a number in a picture also matches shapes such as [1,1]
                array = array.reshape((1,) * (1 + m.below(3)))
            return m.constant(array, "k", dtype.numpy)
        if pattern.name in self.values:
            return self.values[pattern.name]
        if pattern.optional and m.chance(0.5):
            self.values[pattern.name] = None
            return None
        is_integer = bool(dtypes) and f32 not in dtypes
        dtype = pattern.dtype or (dtypes[0] if is_integer else self.dtype)
        if not pattern.const and not is_integer and m.chance(0.9):
            value = self.from_pool(pattern, dtype, data)
        else:
            value = self.constant(kind, spec.name if spec is not None else "x", pattern, dtype, data)
        self.values[pattern.name] = value
        return value

    def from_pool(self, pattern: OperandPattern, dtype: DType, data: Value | None) -> Value:
        """Return a value with ``dtype`` that fits ``pattern``; arguments: see ``operand``.

        The value is from the builder's pool, the values that operators may use.
        """
        m = self.m
        if dtype is not f32 and not any(v.dtype is dtype for v in m.pool):
            m.add(Cast(m.pick(), in_data_type=f32, out_data_type=dtype))
        same = m.shape(data) if data is not None and m.chance(0.5) else None

        def sizes(v: Value) -> dict[str, int] | None:
            """Return the sizes of named dimensions if ``v`` is the operand; None if ``v`` does not fit."""
            return self.dims if pattern.dims is None else unify(pattern.dims, m.shape(v), self.dims)

        value = m.pick(lambda v: same in (None, m.shape(v)) and sizes(v) is not None, dtype)
        self.dims = sizes(value) or {}
        return value

    def constant(
        self, kind: type[Op], name: str, pattern: OperandPattern, dtype: DType, data: Value | None
    ) -> Value:
        """Return a random constant for the operand ``name`` of ``kind``; arguments: see ``operand``."""
        m = self.m
        array = np.asarray(proposal(m, kind, name, data, self.values, dtype))
        if pattern.dims is not None:
            shape = self.shape_of(pattern.dims, array.shape)
            array = m.random.normal(0, 1, shape) if dtype.is_float else m.random.integers(0, 3, shape)
        if dtype.is_float and m.chance(0.1):
            array = np.full(array.shape, m.number(0.0, 1.0, -1.0, 6.0, 0.5))
        return m.constant(array, name, dtype.numpy)

    def shape_of(self, dims: tuple[int | str, ...], proposed: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape that the dimensions ``dims`` of a pattern allow.

        - A number is the size.
        - ``*`` stands for no dimension, or for one or two dimensions of 1.
        - ``O|1`` becomes 1, or the size of O.
        - A letter whose size is known has this size.
        - Any other letter, and ``_``, take the size at the same place of ``proposed``, counted from the end.
          If ``proposed`` has fewer dimensions than ``dims``, this size is 1.
        """
        m = self.m
        leading: list[int] = []
        if dims[:1] == ("*",):
            dims = dims[1:]
            leading = [1] * m.below(3)
        extra = len(proposed) - len(dims)
        proposed = proposed[extra:] if extra >= 0 else (1,) * len(dims)
        shape = []
        for dim, size in zip(dims, proposed, strict=True):
            if isinstance(dim, int):
                shape.append(dim)
                continue
            letter, _, alternative = dim.partition("|")
            if alternative and m.chance(0.3):
                shape.append(int(alternative))
            elif letter == "_":
                shape.append(size)
            else:
                shape.append(self.dims.setdefault(letter, size))
        return (*leading, *shape)

    # -- attributes ----------------------------------------------------------------------------

    def attributes(
        self, kind: type[Op], node: Node, operands: list[Value | None], is_mutated: bool
    ) -> dict[str, Any]:
        """Return attributes for an operator of class ``kind``.  In most cases they match ``node``.

        In a pattern, ``choices`` are the values that match, and ``bind`` is a name: all attributes with this
        name have the same value.  ``node.carried``: further attributes of which any value matches.
        """
        m = self.m
        chosen = derived_attributes(m, kind, operands)
        for spec in kind.attributes:
            pattern = node.attributes.get(spec.name)
            if pattern is not None and pattern.choices is not None:
                chosen[spec.name] = pattern.choices[m.below(len(pattern.choices))]
            elif pattern is not None and pattern.bind in self.bound:
                chosen[spec.name] = self.bound[pattern.bind]
            elif (pattern is not None or spec.name in node.carried) and spec.name not in chosen:
                chosen[spec.name] = random_attribute(m, spec)
            if pattern is not None and pattern.bind and spec.name in chosen:
                self.bound[pattern.bind] = chosen[spec.name]
        if is_mutated and kind.fuses_activation:
            chosen["act"] = (Activation.RELU, Activation.RELU6)[m.below(2)]
        return chosen
