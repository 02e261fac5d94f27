# SPDX-License-Identifier: Apache-2.0
"""What all the ways to write an instance normalization share: the conditions, and what is made.

Over 120 lines because two bounds of an epsilon are derived here.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.dimensions import normalized_axis
from circlekit.rewrite.base import Context
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition

NEGLIGIBLE = 1e-8
"""The largest epsilon that may be added to the standard deviation d, not to the variance, at no cost.

sqrt(d^2 + e^2) is d + e to within e: where d is 1/1000 or more, a quotient changes by 1e-5 of itself at most.
Where d is 0, and the dividend with it, nothing changes.
"""

TINY = 1e-5
"""The largest for those who ask for the pass.

(d + e)^2 = d^2 + 2 e d + e^2, with a typical d of 1/4 in the middle term: the quotient changes by at
most 15 e where the deviation d is from 0.1 to 10, and nothing changes where it is 0.
"""


class InstanceNormForm(Rewrite):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta; others may read the means too.

    A picture calls the means ``m`` and ``m2`` (which may be one), the variance ``v``, and where there are
    any, gamma and beta ``g`` and ``b``.  A Reshape ``s`` before it may put a 1 behind the channels.

    ``outside``: whether epsilon is added to the root, not below it.
    """

    formats = frozenset({"circle"})
    shared = ("m", "m2")
    outside: ClassVar[bool] = False
    most_outside: float = TINY

    after = """
        z = InstanceNorm(x, gamma, beta)        {epsilon: epsilon, act: act}
    """

    def run_graph(self, graph: Graph, context: Context) -> int:
        self.most_outside = NEGLIGIBLE if context.exact else TINY
        return super().run_graph(graph, context)

    @condition
    def channels_known(self, match: Match) -> str | None:
        x, s = match.value("x"), match.values.get("s")
        if x.rank not in (3, 4) or channels_of(x) is None:
            shape = format_shape(x.shape)
            return f"%{x.name}: has shape {shape}, [N,H,W,C] or [N,C,W] with a known C is wanted"
        if s is not None and (x.shape is None or x.rank == 3 or s.shape != (*x.shape, 1)):
            return f"%{s.name}: has shape {format_shape(s.shape)}, [N,H,W,C,1] is wanted"
        return None

    @condition
    def means_over_the_image(self, match: Match) -> str | None:
        x = match.value("x")
        inner = match.values.get("s") or x
        wanted = [2] if x.rank == 3 else [1, 2]
        for mean, operand in (("m", "axes"), ("m2", "axes2"), ("v", "axes3")):
            given = match.value(operand).array().reshape(-1)
            axes = sorted({normalized_axis(int(a), inner.rank or 0) for a in given})
            if [a for a in axes if a != 4] != wanted:  # axis 4 is the 1 that a Reshape has added
                return f"%{match.value(mean).name}: is over the axes {axes}, not {wanted}"
        return None

    @condition
    def parameters_by_channel(self, match: Match) -> str | None:
        x = match.value("x")
        axis = -1 if x.rank == 4 and "s" not in match.values else -2
        for value in (match.values.get("g"), match.values.get("b")):
            if value is None:
                continue
            shape = (1, 1, *value.static_shape)
            if value.numel != shape[axis] or shape[axis] not in (1, channels_of(x)):
                found = format_shape(value.shape)
                return f"%{value.name}: has shape {found}, one number a channel of %{x.name} is wanted"
        return None

    @condition
    def epsilon_fits(self, match: Match) -> str | None:
        eps = match.value("eps")
        epsilon = float(eps.array().reshape(-1)[0])
        if epsilon and not np.float32(self.below_the_root(epsilon)):
            return f"%{eps.name}: epsilon is {epsilon:g}, which below the root would be 0 in 32 bits"
        if 0 <= epsilon <= (self.most_outside if self.outside else np.inf):
            return None
        wanted = f"at most {self.most_outside:g} beside a root" if self.outside else "none below 0"
        return f"%{eps.name}: epsilon is {epsilon:g}, {wanted} is wanted"

    def constants(self, match: Match) -> dict[str, Any]:
        channels = channels_of(match.value("x"))
        epsilon = float(match.value("eps").array().reshape(-1)[0])
        return {
            "gamma": _by_channel(match.values.get("g"), 1.0, channels),
            "beta": _by_channel(match.values.get("b"), 0.0, channels),
            "epsilon": self.below_the_root(epsilon),
            "act": match.attributes.get("act", Activation.NONE),
        }

    def below_the_root(self, epsilon: float) -> float:
        if not self.outside:
            return epsilon
        return epsilon**2 if epsilon <= NEGLIGIBLE else epsilon / 2 + epsilon**2


def channels_of(x: Value) -> int | None:
    """How many channels NHWC data, or NCW data, has, where that is known."""
    return None if x.shape is None else x.shape[1 if x.rank == 3 else -1]


def _by_channel(value: Value | None, default: float, channels: int | None) -> Array:
    given = np.full(1, default, np.float32) if value is None else value.array().reshape(-1)
    return np.array(np.broadcast_to(given, (channels or 0,)))
