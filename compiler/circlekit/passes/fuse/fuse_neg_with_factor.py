# SPDX-License-Identifier: Apache-2.0
"""Remove a NEG whose result is moved and then multiplied: change signs in the other factor instead.

In a rotary embedding, for example, the factor is the table of sines.
"""

from __future__ import annotations

from math import prod

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Mul
from circlekit.ops.arithmetic.unary import Neg
from circlekit.ops.dimensions import broadcast_shapes
from circlekit.ops.movement.join import Concatenation, Pack
from circlekit.passes.support.axis_indices import MAX_ELEMENTS, moved_operand
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass

Products = dict[tuple[Value, tuple[int, ...], bytes], Value]
"""{(factor, shape of the signs, bytes of the signs): the product of the factor and the signs}."""


class FuseNegWithFactor(GraphPass):
    """concat(-hi, lo) * sin  ==  concat(hi, lo) * (sin with the sign of each part).

    Other data movement may take the place of concat.  A constant factor gets the signs (1 and -1) at once.
    Another factor is multiplied by a constant of signs, if the product has no more elements than the operands
    of all removed NEGs together.
    """

    name = "fuse_neg_with_factor"

    def run_graph(self, graph: Graph, context: Context) -> int:
        if Neg not in graph.kinds:
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
            # progress: NEG and the data movement match (2 each), and a condition refuses MUL (1)
            if context.accepts(self.name, op, sentence, progress=5) and signs is not None:
                op.set_input(1 - index, _signed(graph, op, factor, signs, products))
                for result in negated:
                    if isinstance(neg := result.producer, Neg):
                        graph.replace(result, neg.input)
                        graph.remove(neg)
                return True
        return False


def _tree(graph: Graph, value: Value) -> dict[Value, list[Value]]:
    """Return ``value`` and the values from which data movement makes it, each with its list of operands.

    The list of a value has the operands that its producer moves.  For concat(n, lo) with n = -hi, the result
    is {concat: [n, lo], n: [], lo: []}.  The list of a value is empty in these cases:

    - The value has no producer, or its producer moves no data.
    - The producer is a concatenation with an activation.
    - The results of the producer have more than one use in total.  A graph output counts as a use.
    """
    producer = value.producer
    operands: list[Value] = []
    results = [] if producer is None else producer.results
    total_uses = sum(result.use_count + graph.is_output(result) for result in results)
    if total_uses == value.use_count == 1 and producer is not None:
        if isinstance(producer, Concatenation | Pack):
            is_plain = producer.attribute_items().get("act", Activation.NONE) is Activation.NONE
            operands = list(producer.values) if is_plain else []
        elif (moved := moved_operand(producer)) is not None:
            operands = [moved]
    tree = {value: operands}
    for operand in operands:
        tree |= _tree(graph, operand)
    return tree


def _is_removable(graph: Graph, value: Value) -> bool:
    """Return whether NEG produces ``value`` and can be removed.

    A NEG of a variable stays, because the variable may change before MUL reads it.
    """
    neg = value.producer
    is_neg = isinstance(neg, Neg) and not neg.input.is_variable
    return is_neg and value.use_count == 1 and not graph.is_output(value)


def _refusal(op: Mul, value: Value, factor: Value, signs: Array | None, negated: list[Value]) -> str | None:
    """Return why ``signs``, the signs of ``value``, cannot move into ``factor``; None if they can."""
    if signs is None:
        return (
            f"%{value.name}: expected f32 of at most {MAX_ELEMENTS} elements, "
            "computed from values of static shapes"
        )
    shape = broadcast_shapes(factor.shape, signs.shape)
    if shape is None or op.output.shape is None or len(shape) > len(op.output.shape):
        return f"%{factor.name}: expected a known rank, not above that of the product"
    size = prod(1 if dim is None else dim for dim in shape)
    if size > value.numel:
        return f"%{factor.name}: would become larger than %{value.name}"
    if not factor.is_const and size > sum(v.numel for v in negated):
        product = "its product with the signs is larger than what the NEGs read"
        return f"%{factor.name}: is not constant, and {product}"
    return None


def _signs(value: Value, tree: dict[Value, list[Value]], negated: list[Value]) -> Array:
    """Return the sign, -1 or 1, of each element of ``value``; an axis along which all are equal has size 1.

    ``tree``: from ``_tree``.  ``negated``: the values in ``tree`` whose NEGs will be removed.
    For concat(-hi, lo) along axis 1, with hi and lo of shape [3,2], the result is [[-1, -1, 1, 1]].
    """

    def signs_of(part: Value) -> Array:
        op, operands = part.producer, tree[part]
        if op is None or not operands:
            return np.full(part.static_shape, -1 if part in negated else 1, np.int8)
        # let the kernel move the signs in place of the elements
        moved = op.kernel(
            *(None if v is None else signs_of(v) if v in operands else v.array() for v in op.inputs)
        )
        return np.asarray(moved[part.result_index] if isinstance(moved, tuple | list) else moved)

    signs = signs_of(value)
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
