# SPDX-License-Identifier: Apache-2.0
"""One number behind a matrix product, moved to the layer that it can be folded into."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.passes.support.linear_producer import not_from_product
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class Left(Rewrite):
    """(x @ w) * 2  ==  (x * 2) @ w."""

    before = """
        y = BatchMatMul(x, w)
        z = Mul(y, c: const f32[*, 1])
    """
    after = """
        m = Mul(x, d)
        z = BatchMatMul(m, w)                  {like y}
    """

    @condition
    def follows_a_product(self, x: Value) -> str | None:
        return not_from_product(x, shifts=False)

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": c.reshape(())}


class Right(Left):
    """(w @ x) * 2  ==  w @ (x * 2)."""

    before = Left.before.replace("(x, w)", "(w, x)")
    after = Left.after.replace("(m, w)", "(w, m)")


class ForwardNumber(Rules):
    """A product with one number goes before a BATCH_MATMUL, where a layer is before that which can take it.

    The scale of an attention, say, goes into the layer that makes its queries.
    """

    name = "forward_number"
    rules = (Left, Right)
