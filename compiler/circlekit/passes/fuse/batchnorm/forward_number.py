# SPDX-License-Identifier: Apache-2.0
"""Move a factor behind a BATCH_MATMUL to the layer before it."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.passes.support.linear_producer import producer_refusal
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Factor(Rewrite):
    """batch_matmul($old) * 2  ==  batch_matmul($new), where m = x * 2."""

    before = """
        y = BatchMatMul($old)
        z = Mul(y, c: const f32[*, 1])
    """
    after = """
        m = Mul(x, d)
        z = BatchMatMul($new)                  {like y}
    """

    @condition
    def follows_a_linear_operator(self, x: Value) -> str | None:
        return producer_refusal(x, shifts=False)

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": c.reshape(())}


class ForwardNumber(Rules):
    """Move a product with one number before a BATCH_MATMUL, where a layer comes before that can absorb it.

    For example, the scale of an attention moves into the layer that computes its queries.
    """

    name = "forward_number"
    rules = (_Factor.member(old="x, w", new="m, w"), _Factor.member(old="w, x", new="w, m"))
