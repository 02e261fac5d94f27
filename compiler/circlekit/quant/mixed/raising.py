# SPDX-License-Identifier: Apache-2.0
"""Choose the operators to raise, the best for their cost first, up to a demanded SQNR or within a budget.

To raise an operator is to compute it in a higher precision than the others.  SQNR is the
signal-to-quantization-noise ratio of an output in dB.  All noises here are powers, relative to the power of
the signal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from circlekit.errors import UnsupportedError
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.quantized_values import followed_operand
from circlekit.quant.mixed.sensitivity import Sensitivity, is_raised
from circlekit.targets.cost import operator_cost

MAX_CLUSTER = 8
"""The largest number of neighboring operators that are tried together.

Raising one of them alone often gains nothing, because the tensors around it stay rounded.
"""

LEAST_PRICE = 1e-9
"""The number by which a gain is divided if the cost is 0.  An operator without constants costs 0 bytes."""

COSTS: Mapping[str, Callable[[Op], float]] = {
    "operators": lambda op: 1.0,
    "macs": lambda op: float(operator_cost(op).macs),
    "bytes": lambda op: float(operator_cost(op).constant_bytes),
}
"""By the unit of a budget, a function that returns the cost of an operator in this unit."""


@dataclass(frozen=True)
class Budget:
    """A limit of the cost of raised operators: a share, 0 to 1, of the cost of all quantized operators.

    ``unit``: the unit of the cost, a key of COSTS.
    """

    share: float
    unit: str = "operators"

    @staticmethod
    def parse(text: str) -> Budget:
        """Return the budget that a text such as ``20%``, ``5% macs`` or ``5%:macs`` describes.

        The number is 0 to 100.  The unit is a key of COSTS, by default ``operators``.  Raise UnsupportedError
        for other texts.
        """
        number, percent, unit = str(text).partition("%")
        try:
            budget = Budget(float(number) / 100, unit.strip(" :") or "operators")
        except ValueError:
            budget = Budget(math.nan)
        if not percent or not 0 <= budget.share <= 1 or budget.unit not in COSTS:
            units = ", ".join(COSTS)
            raise UnsupportedError(f"budget: expected 0% to 100% of one of {units}, got {text!r}")
        return budget


def choose_raised(
    sensitivity: Sensitivity,
    operators: Iterable[Op],
    target_sqnr: float | None = None,
    budget: Budget | None = None,
    keeps_constants: bool = False,
    clusters: Sequence[Sequence[Op]] = (),
) -> list[Op]:
    """Return the operators to raise, beginning with those that reduce the noise most for their cost.

    ``sensitivity``: the noise that each rounded tensor and constant adds.
    ``operators``: the quantized operators.
    The choice ends as soon as the predicted noise is as low as ``target_sqnr`` (in dB) demands, or the rest
    of the budget is too small for every operator and group of operators that reduces the noise.  Without a
    budget, each operator costs 1.
    ``keeps_constants``: raising an operator does not change its constants, only activations.
    ``clusters``: groups of operators to raise together.  They compete with the groups of neighbors that grow
    from each operator.
    """
    pool = list(operators)
    cost = COSTS[budget.unit if budget is not None else "operators"]
    limit = sum(map(cost, pool)) * budget.share if budget is not None else math.inf
    goal = 10 ** (-target_sqnr / 10) if target_sqnr is not None else 0.0
    gains = _Gains(sensitivity, pool, keeps_constants)
    raised: dict[Op, None] = {}
    spent = 0.0
    # for each operator, (gain per cost, operators) of the best cluster that begins with it
    candidates = {op: _best_cluster(op, raised, gains, cost, limit) for op in pool}
    while sensitivity.remaining(raised, keeps_constants) > goal:
        whole = [_whole_cluster(ops, raised, gains, cost, limit - spent) for ops in clusters]
        _, best = max([*candidates.values(), *whole], key=_ratio, default=(0.0, []))
        if not best:
            break
        raised.update(dict.fromkeys(best))
        spent += sum(map(cost, best))
        near = gains.neighbors(best)  # the gains of clusters with these operators have changed
        for op, (_, cluster) in list(candidates.items()):
            if op in raised:
                del candidates[op]
            elif near.intersection(cluster) or op in near or sum(map(cost, cluster)) > limit - spent:
                candidates[op] = _best_cluster(op, raised, gains, cost, limit - spent)
    return list(raised)


def _rounded_tensors(op: Op) -> list[Value]:
    """Return the tensors that ``op`` reads or produces, without constants.

    In place of a copy that data movement makes, return the copied tensor: the copy is not rounded again.
    """
    found: dict[Value, None] = {}
    for value in (*op.inputs, *op.results):
        while value is not None and value.producer is not None:
            source = followed_operand(value.producer)
            if source is None:
                break
            value = source
        if value is not None and not value.is_const:
            found[value] = None
    return list(found)


def _ratio(candidate: tuple[float, list[Op]]) -> float:
    """Return the gain per cost of ``candidate``, a pair (gain per cost, operators)."""
    return candidate[0]


class _Gains:
    """Computes how much noise vanishes if more operators are raised.

    ``operators``: the operators that may be raised.  ``keeps_constants``: see ``choose_raised``.
    """

    def __init__(self, sensitivity: Sensitivity, operators: Iterable[Op], keeps_constants: bool) -> None:
        self.constants = {} if keeps_constants else sensitivity.constants
        self.tensors = sensitivity.tensors
        self.raisable = set(operators)
        self.rounded = {op: _rounded_tensors(op) for op in self.raisable}
        self.around: dict[Value, set[Op]] = {}  # by rounded tensor, the operators that touch it or a copy
        for op, tensors in self.rounded.items():
            for tensor in tensors:
                self.around.setdefault(tensor, set()).add(op)

    def of(self, cluster: Iterable[Op], raised: Mapping[Op, None]) -> float:
        """Return the noise that vanishes if ``cluster`` is raised in addition to ``raised``."""
        chosen = dict.fromkeys(cluster)  # a dict has an order, on which sums of floats depend
        noise = sum(self.constants.get(op, 0.0) for op in chosen)
        both = {*chosen, *raised}
        rounded = dict.fromkeys(v for op in chosen for v in self.rounded[op])
        noise += sum(self.tensors[v] for v in rounded if v in self.tensors and is_raised(v, both))
        return noise

    def neighbors(self, cluster: Iterable[Op]) -> set[Op]:
        """Return ``cluster`` and the operators that touch a rounded tensor that ``cluster`` touches.

        Only operators that may be raised count.
        """
        tensors = {v for op in cluster for v in self.rounded[op]}
        return {*cluster}.union(*(self.around[v] for v in tensors))


def _whole_cluster(
    ops: Sequence[Op], raised: Mapping[Op, None], gains: _Gains, cost: Callable[[Op], float], limit: float
) -> tuple[float, list[Op]]:
    """Return (gain per cost, operators) of raising those of ``ops`` that are not raised yet, all together.

    Return (0, []) if there are none, or if they cost more than ``limit``.
    """
    new = [op for op in ops if op in gains.raisable and op not in raised]
    price = sum(map(cost, new))
    if not new or price > limit:
        return 0.0, []
    return gains.of(new, raised) / max(price, LEAST_PRICE), new


def _best_cluster(
    start: Op, raised: Mapping[Op, None], gains: _Gains, cost: Callable[[Op], float], limit: float
) -> tuple[float, list[Op]]:
    """Return (gain per cost, operators) of the best cluster of neighbors that grows from ``start``.

    Neighbors are added one by one: each time the neighbor with which the cluster gains most for its cost.
    Among equal neighbors, the names of their first results decide.  Return (0, []) if no cluster gains
    anything within the cost ``limit``.
    """
    cluster, price, best = [start], cost(start), (0.0, list[Op]())
    while price <= limit:
        ratio = gains.of(cluster, raised) / max(price, LEAST_PRICE)
        if ratio > best[0]:
            best = (ratio, list(cluster))
        further = sorted(
            (op for op in gains.neighbors(cluster) if op not in cluster and op not in raised),
            key=lambda op: (
                -gains.of([*cluster, op], raised) / max(price + cost(op), LEAST_PRICE),
                op.results[0].name,
            ),
        )
        if not further or len(cluster) == MAX_CLUSTER:
            break
        cluster.append(further[0])
        price += cost(further[0])
    return best
