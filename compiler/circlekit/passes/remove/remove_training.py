# SPDX-License-Identifier: Apache-2.0
"""Remove leftovers of training and export: dropout, negative-index guards, operators that the user names."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from circlekit.errors import RewriteError
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.arithmetic.random_ops import Multinomial, RandomStandardNormal, RandomUniform
from circlekit.ops.dimensions import normalized_axis
from circlekit.rewrite.base import Context, Option, Pass, names_of
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Masked(Rewrite):
    """x * factor * (random >= rate)  becomes  x, its expected value; factor is 1 / (1 - rate).

    random is from 0 to 1, so a rate below 0 drops nothing, and one above 1 drops everything.
    """

    changes_values = True

    before = """
        r = RandomUniform(shape)                {seed: any, seed2: any}
        g = GreaterEqual|Greater(r, rate: const f32[*, 1])
        $mask
    """
    after = "x"

    @condition
    def keeps_the_mean(self, rate: Array, factor: Array) -> str | None:
        """``factor`` is 1 / (1 - ``rate``), with ``rate`` clipped to 0 to 1."""
        kept = float(np.clip(1 - float(rate.reshape(-1)[0]), 0, 1))
        return mean_refusal(kept, float(factor.reshape(-1)[0]))


class _Floored(Rewrite):
    """x / keep * floor(random + keep)  becomes  x, its expected value: dropout as TensorFlow 1 writes it."""

    changes_values = True

    before = """
        r = RandomUniform(shape)                {seed: any, seed2: any}
        a = Add(r, keep: const f32[*, 1])
        m = Floor(a)
        s = Div|Mul(x: f32, factor: const f32[*, 1])
        z = Mul(s, m)
    """
    after = "x"

    @condition
    def keeps_the_mean(self, match: Match, keep: Array, factor: Array) -> str | None:
        """``x`` is scaled by 1 / ``keep``."""
        scale = float(factor.reshape(-1)[0])
        if isinstance(match.ops["s"], Div):
            scale = 1 / (scale or np.nan)
        return mean_refusal(float(keep.reshape(-1)[0]), scale)


def mean_refusal(kept: float, scale: float) -> str | None:
    """Return a refusal if the factor ``scale`` of a dropout is not 1 / ``kept``; None if it is.

    ``kept``: the fraction of elements that the dropout keeps.
    """
    if math.isclose(kept * scale, 1, rel_tol=1e-5):
        return None
    expected = 1 / kept if kept else np.inf
    return f"expected a factor of {expected:g} for the kept part of {kept:g}, got {scale:g}"


CAST = "m = Cast(g)   {in_data_type: any, out_data_type: any}"
MASKS = (
    f"{CAST}\n        s = Mul(x: f32, factor: const f32[*, 1])\n        z = Mul(s, m)",
    "s = Mul(x: f32, factor: const f32[*, 1])\n        z = SelectV2|Select(g, s, 0.0)",
    f"{CAST}\n        s = Mul(x: f32, m)\n        z = Mul(s, factor: const f32[*, 1])",
)
"""Ways to multiply x by factor and by the mask g of bools, which is cast to 1 or 0, or selects x or 0."""


class RemoveDropout(Rules):
    """Replace dropout, which is used only in training, by its operand, the mean of its result."""

    name = "remove_dropout"
    changes_values = True
    rules = (*(_Masked.member(mask=mask) for mask in MASKS), _Floored)

    @classmethod
    def notes(cls, model: Model, context: Context, changes: int | None) -> Iterable[str]:
        for op in model.ops():
            if isinstance(op, RandomUniform | RandomStandardNormal | Multinomial):
                found = f"{op.code} %{op.output.name} gives other numbers in every run"
                yield f"{found}; if it is dropout left from training, --remove_dropout removes it"


class RemoveGatherGuard(Rewrite):
    """gather(p, (i + n) mod n)  becomes  gather(p, i), if p has n rows; only valid for i from 0 to n - 1."""

    name = "remove_gather_guard"
    changes_values = True
    shared = ("a", "m")

    before = """
        a = Add(i, n: const [*, 1])
        m = FloorMod(a, n2: const [*, 1])
        z = Gather(p, m)                    {axis: any = axis, batch_dims: any}
    """
    after = "z = Gather(p, i)  {like z}"

    @condition
    def counts_the_rows(self, match: Match, p: Value, axis: int) -> str | None:
        """``n`` and ``n2`` are the number of rows of ``p``."""
        rows = p.known_shape[normalized_axis(axis, p.known_rank)]
        if rows is None:
            return f"%{p.name}: expected a known number of rows, got shape {format_shape(p.shape)}"
        added, modulus = (int(match.value(n).array().reshape(-1)[0]) for n in ("n", "n2"))
        if added == modulus == rows:
            return None
        return f"%{p.name}: expected {rows}, its rows, as addend and as modulus, got {added} and {modulus}"

    @condition
    def does_not_guard(self, i: Value, n: Array) -> str | None:
        """A constant ``i`` has only numbers from 0 to n - 1; a computed ``i`` is not checked."""
        rows = int(n.reshape(-1)[0])
        if not i.is_plain or ((i.array() >= 0) & (i.array() < rows)).all():
            return None
        return f"%{i.name}: expected indices from 0 to {rows - 1}"


TRAINING_CHECKS = frozenset(flex + name for flex in ("", "Flex") for name in ("Assert", "Print", "PrintV2"))
"""Names of TensorFlow's operators that check or print values, and return nothing or only their operand."""


class RemoveNodesOf(Pass):
    """Remove operators of given kinds, custom codes or result names; their first operand replaces the result.

    Values change if the operators compute something else than their first operand.  An operator with a result
    stays in these cases:

    - It has several results, or no first operand.
    - The dtype or the shape of the result differs from that of the first operand.
    - The result is an output of the graph, and the first operand cannot take its place.

    Raise RewriteError at the end of a run for a given name that no operator had in this run or an earlier
    one; with --explain, raise nothing.
    """

    name = "remove_nodes_of"
    changes_values = True
    options = (
        Option(
            "remove_nodes_of",
            "remove the operators of these kinds (FAKE_QUANT), custom codes (FlexAssert) or results",
            "NAME,NAME",
            names_of,
        ),
    )

    @classmethod
    def notes(cls, model: Model, context: Context, changes: int | None) -> Iterable[str]:
        for op in model.ops():
            if isinstance(op, OpaqueOp) and op.custom_code in TRAINING_CHECKS:
                yield (
                    f"the custom operator {op.custom_code} is for training, and few runtimes have it: "
                    f"--remove_nodes_of {op.custom_code} removes it"
                )

    def __init__(self) -> None:
        self.found: set[str] = set()  # the given names that an operator had so far

    def run(self, model: Model, context: Context) -> int:
        requested: list[str] = self.setting(context, "remove_nodes_of") or []
        count = 0
        for graph in model.graphs:
            for op in graph.ops:
                custom = [op.custom_code] if isinstance(op, OpaqueOp) else []
                names = {op.code, *custom, *(value.name for value in op.results)}
                named = [name for name in requested if name in names]
                self.found.update(named)
                if named:
                    count += self._remove(graph, op, context)
        missing = [name for name in requested if name not in self.found]
        # --explain (``refusals``) runs the pass on the optimized model, which lacks the operators already
        if missing and context.refusals is None:
            raise RewriteError(f"remove_nodes_of: no operator has the kind, code or result name {missing[0]}")
        return count

    def _remove(self, graph: Graph, op: Op, context: Context) -> bool:
        """Remove ``op`` if possible; return whether it was removed."""
        operand = op.inputs[0] if op.inputs else None
        why = _obstacle(graph, op, operand)
        if not context.accepts(self.name, op, why):
            return False
        for value in tuple(op.results):
            if operand is not None:
                graph.replace(value, operand)
        graph.remove(op)
        return True


def _obstacle(graph: Graph, op: Op, operand: Value | None) -> str | None:
    """Return why the first operand of ``op`` cannot replace its result; None if it can."""
    if not op.results:
        return None
    result = op.results[0]
    if len(op.results) > 1:
        return f"%{result.name}: expected one result, got {len(op.results)}"
    if operand is None:
        return f"%{result.name}: its operator has no first operand to replace it"
    if operand.dtype is not result.dtype or operand.shape != result.shape:
        return f"%{result.name}: is {result.type}, %{operand.name} is {operand.type}"
    if not graph.can_stand_for(result, operand):
        return f"%{result.name}: is an output of the graph, and %{operand.name} cannot take its place"
    return None
