# SPDX-License-Identifier: Apache-2.0
"""Remove a NEG whose result is moved and then multiplied: change signs in the other factor instead.

A MUL by -1, as litert-torch writes it, counts as a NEG.  In a rotary embedding, for example, the factor is
the table of sines.
"""

from __future__ import annotations

from math import prod

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.shape_inference import misfit
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Mul
from circlekit.ops.arithmetic.unary import Neg
from circlekit.ops.dimensions import broadcast_shapes
from circlekit.ops.movement.join import Concatenation, Pack
from circlekit.passes.support.axis_indices import MAX_ELEMENTS, moved_operand, results_for
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass

Products = dict[tuple[Value, tuple[int, ...], bytes], Value]
"""{(factor, shape of the signs, bytes of the signs): the product of the factor and the signs}."""


class FuseNegWithFactor(GraphPass):
    """concat(-hi, lo) * sin  ==  concat(hi, lo) * (sin with the sign of each part).

    Other data movement may take the place of concat.  A constant factor is replaced by its product with the
    signs (1 and -1); for another factor, a new MUL computes the product.  The product may have at most as
    many elements as the moved value.  If a MUL computes it, there is a second limit: the number of elements
    that all removed NEGs read together.  Unknown dimensions count as 1.
    """

    name = "fuse_neg_with_factor"

    def run_graph(self, graph: Graph, context: Context) -> int:
        if not any(_negated(value) for op in graph.ops for value in op.results):
            return 0
        products: Products = {}
        return sum(self._fold(graph, op, products, context) for op in graph.ops if isinstance(op, Mul))

    def _fold(self, graph: Graph, op: Mul, products: Products, context: Context) -> bool:
        """Move the NEGs before an operand of ``op`` into the other operand; return whether it did."""
        for index, (value, factor) in enumerate(((op.lhs, op.rhs), (op.rhs, op.lhs))):
            tree = _tree(graph, value)
            negated = [v for v, operands in tree.items() if not operands and _is_removable(graph, v)]
            # if ``value`` itself is the result of a NEG, fuse_neg removes the NEG
            if factor is value or not negated or value in negated:
                continue
            is_computable = (
                all(v.is_static for v in tree) and value.dtype is f32 and value.numel <= MAX_ELEMENTS
            )
            signs = _signs(value, tree, negated) if is_computable else None
            sentence = _refusal(op, value, factor, signs, negated)
            # for ``progress`` see Refusal: NEG and data movement match (2 each), a condition refuses MUL (1)
            if context.accepts(self.name, op, sentence, progress=5) and signs is not None:
                op.set_input(1 - index, _signed(graph, op, factor, signs, products))
                for result in negated:
                    if (operand := _negated(result)) is not None and result.producer is not None:
                        neg = result.producer
                        graph.replace(result, operand)
                        graph.remove(neg)
                return True
        return False


def _tree(graph: Graph, value: Value) -> dict[Value, list[Value]]:
    """Return ``value`` and the values from which data movement makes it, each with its list of operands.

    The list of a value has the operands that its producer moves.  For concat(n, lo) with n = -hi, the result
    is {concat: [n, lo], n: [], lo: []}.  A value with operands stands before them.
    """
    tree: dict[Value, list[Value]] = {}
    todo = [value]
    while todo:
        value = todo.pop()
        tree[value] = _moved_operands(graph, value)
        todo += reversed(tree[value])
    return tree


def _moved_operands(graph: Graph, value: Value) -> list[Value]:
    """Return the operands that the producer of ``value`` moves.

    Return [] in these cases:

    - The value has no producer, or its producer moves no data.
    - The producer is a concatenation with an activation.
    - The results of the producer have more than one use in total.  A graph output counts as a use.
    """
    producer = value.producer
    if producer is None or value.use_count != 1:
        return []
    if sum(result.use_count + graph.is_output(result) for result in producer.results) != 1:
        return []
    if isinstance(producer, Concatenation | Pack):
        is_plain = producer.attribute_items().get("act", Activation.NONE) is Activation.NONE
        return list(producer.values) if is_plain else []
    moved = moved_operand(producer)
    return [] if moved is None else [moved]


def _is_removable(graph: Graph, value: Value) -> bool:
    """Return whether NEG produces ``value`` and can be removed.

    A NEG of a variable stays, because the variable may change before MUL reads it.
    """
    operand = _negated(value)
    is_neg = operand is not None and not operand.is_variable
    return is_neg and value.use_count == 1 and not graph.is_output(value)


def _negated(value: Value) -> Value | None:
    """Return the operand whose negation ``value`` is; None if its producer does not negate."""
    neg = value.producer
    if isinstance(neg, Neg):
        return neg.input
    if not isinstance(neg, Mul) or neg.act is not Activation.NONE or value.dtype is not f32:
        return None
    for operand, factor in ((neg.lhs, neg.rhs), (neg.rhs, neg.lhs)):
        is_minus_one = factor.is_plain and factor.numel == 1 and factor.array().item() == -1
        if is_minus_one and operand.shape == value.shape:
            return operand
    return None


def _refusal(op: Mul, value: Value, factor: Value, signs: Array | None, negated: list[Value]) -> str | None:
    """Return why ``signs``, the signs of ``value``, cannot move into ``factor``; None if they can."""
    if signs is None:
        expected = f"expected valid data movement of f32, static shapes and at most {MAX_ELEMENTS} elements"
        return f"%{value.name}: {expected}"
    if factor.is_const and not factor.is_plain:
        return f"%{factor.name}: expected a constant that is not sparse or compressed"
    if (sentence := misfit(op)) is not None:
        return f"%{op.output.name}: {sentence}"
    shape = broadcast_shapes(factor.shape, signs.shape)
    if shape is None or op.output.shape is None or len(shape) > len(op.output.shape):
        return f"%{factor.name}: expected a known rank, not above that of the product"
    size = prod(1 if dim is None else dim for dim in shape)
    if size > value.numel:
        return f"%{factor.name}: would become larger than %{value.name}"
    if not factor.is_const and size > sum(v.numel for v in negated):
        product = "its product with the signs has more elements than the NEGs read"
        return f"%{factor.name}: is not constant, and {product}"
    return None


def _signs(value: Value, tree: dict[Value, list[Value]], negated: list[Value]) -> Array | None:
    """Return the sign, -1 or 1, of each element of ``value``; an axis along which all are equal has size 1.

    ``tree``: from ``_tree``.  ``negated``: the values in ``tree`` whose NEGs will be removed.
    For concat(-hi, lo) along axis 1, with hi and lo of shape [3,2], the result is [[-1, -1, 1, 1]].
    Return None if a kernel refuses the operands of a data movement.
    """
    leaves = (part for part, operands in tree.items() if not operands)
    found = {part: np.full(part.static_shape, -1 if part in negated else 1, np.int8) for part in leaves}
    for part, operands in reversed(tree.items()):
        if operands and part.producer is not None:
            # let the kernel move the signs in place of the elements
            moved = results_for(part.producer, found)
            if moved is None:
                return None
            found[part] = np.asarray(moved[part.result_index])
            for operand in operands:
                if tree[operand]:  # ``operand`` has no other use, so its signs are not needed any more
                    del found[operand]
    signs = found[value]
    for axis in range(signs.ndim):
        first = signs.take(range(signs.shape[axis])[:1], axis)
        signs = first if (signs == first).all() else signs
    return signs.astype(np.float32)


def _signed(graph: Graph, op: Mul, factor: Value, signs: Array, products: Products) -> Value:
    """Return the product of ``factor`` and ``signs``: an earlier one from ``products``, or a new one.

    If ``factor`` is constant, the product is a constant; else a new MUL before ``op`` computes it.  If
    ``factor`` is a variable, each MUL gets its own product: the variable may change between two operators.
    """
    key = factor, signs.shape, signs.tobytes()
    if key not in products or factor.is_variable:
        new = Inserter(graph, op)
        if factor.is_const:
            products[key] = new.constant("signed", np.ascontiguousarray(factor.array() * signs))
        else:
            products[key] = new.make(Mul(factor, new.constant("signs", signs)))
    return products[key]
