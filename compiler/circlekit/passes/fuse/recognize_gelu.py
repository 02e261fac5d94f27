# SPDX-License-Identifier: Apache-2.0
"""Recognize GELU written as several operators, also if its factors are in the weights of layers around it."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.arithmetic.division import Div
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

RELATIVE_TOLERANCE = 1e-5
"""Largest relative difference between a constant of a GELU, such as sqrt(1/2), and its formula."""

GELU_ENDS = (
    "a = Add(e, 1.0)  m = Mul(x, a)  z = Mul(m, 0.5)",
    "a = Add(e, 1.0)  h = Mul(x, 0.5)  z = Mul(h, a)",
    "a = Add(e, 1.0)  h = Mul(a, 0.5)  z = Mul(x, h)",
    "h = Mul(e, 0.5)  a = Add(h, 0.5)  z = Mul(x, a)",
    "h = Mul(x, 0.5)  m = Mul(h, e)  z = Add(h, m)",
)
"""x * (1 + e) / 2 in any order, where e is erf(...) or tanh(...)."""

ERFC_ENDS = (
    "m = Mul(x, e)  z = Mul(m, 0.5)",
    "h = Mul(x, 0.5)  z = Mul(h, e)",
    "h = Mul(e, 0.5)  z = Mul(x, h)",
)
"""x * e / 2 in any order, where e is erfc(...)."""

# in the texts below, k is cubic * x^3 or cubic * x^2; d and p are intermediate results, Tanh reads s
CUBIC = "cubic: const f32[*, 1]"
ROOT = "root: const f32[*, 1]"
CUBES = (
    f"c = Pow(x: f32, 3.0)  k = Mul(c, {CUBIC})",
    f"q = Mul(x: f32, x)  c = Mul(q, x)  k = Mul(c, {CUBIC})",
    f"q = Square(x: f32)  c = Mul(q, x)  k = Mul(c, {CUBIC})",
    f"u = Mul(x: f32, {CUBIC})  v = Mul(u, x)  k = Mul(v, x)",
)
SQUARES = (
    f"q = Pow(x: f32, 2.0)  k = Mul(q, {CUBIC})",
    f"q = Mul(x: f32, x)  k = Mul(q, {CUBIC})",
    f"q = Square(x: f32)  k = Mul(q, {CUBIC})",
    f"u = Mul(x: f32, {CUBIC})  k = Mul(u, x)",
)

SUMS_OF_CUBES = (f"d = Add(x, k)  s = Mul(d, {ROOT})",)
"""root * (x + k)."""

SUMS_OF_SQUARES = (
    f"d = Add(k, 1.0)  p = Mul(x, {ROOT})  s = Mul(p, d)",
    f"d = Add(k, 1.0)  p = Mul(x, d)  s = Mul(p, {ROOT})",
    f"d = Add(k, 1.0)  p = Mul(d, {ROOT})  s = Mul(x, p)",
)
"""root * x * (1 + k) in any order of the factors."""


class _Erf(Rewrite):
    """x * (1 + erf(x * sqrt(1/2))) / 2, also with a division by sqrt(2).

    The converter of TensorFlow puts Flex before the name of an operator that TensorFlow's own kernel has to
    run.
    """

    function: ClassVar[str] = "Erf"
    sign: ClassVar[int] = 1  # the expected sign of ``root``

    before = """
        s = Mul|Div(x: f32, root: const f32[*, 1])
        e = Custom("Erf|FlexErf", s)
        $end
    """
    after = "z = Gelu(x)  {approximate: false}"

    @condition
    def scaled_by_the_root_of_one_half(self, match: Match, root: Array) -> str | None:
        """The operators before erf multiply x by sqrt(1/2), those before erfc by -sqrt(1/2)."""
        divided = isinstance(match.ops["s"], Div)
        found, expected = float(root.reshape(-1)[0]), self.sign * math.sqrt(2.0 if divided else 0.5)
        if math.isclose(found, expected, rel_tol=RELATIVE_TOLERANCE):
            return None
        kind = "divisor" if divided else "factor"
        return f"expected the {kind} {expected:g} before {self.function}, got {found:g}"


class _Erfc(_Erf):
    """x * erfc(-x * sqrt(1/2)) / 2, as newer versions of TensorFlow write it."""

    function, sign = "Erfc", -1

    before = """
        s = Mul|Div(x: f32, root: const f32[*, 1])
        e = Custom("Erfc|FlexErfc", s)
        $end
    """


class _ErfcOfNeg(_Erf):
    """x * erfc(neg(x) * sqrt(1/2)) / 2, with an operator NEG for the sign."""

    function = "Erfc"

    before = """
        n = Neg(x: f32)
        s = Mul|Div(n, root: const f32[*, 1])
        e = Custom("Erfc|FlexErfc", s)
        $end
    """


class _Tanh(Rewrite):
    """x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) / 2."""

    before = """
        $term
        $total
        e = Tanh(s)
        $end
    """
    after = "z = Gelu(x)  {approximate: true}"

    @condition
    def constants_of_the_formula(self, match: Match) -> str | None:
        """``cubic`` is 0.044715, and ``root`` is sqrt(2/pi)."""
        for name, expected in (("cubic", 0.044715), ("root", np.sqrt(2 / np.pi))):
            value = match.value(name)
            found = float(value.array().reshape(-1)[0])
            if not math.isclose(found, expected, rel_tol=RELATIVE_TOLERANCE):
                return f"%{value.name}: expected {expected:g}, got {found:g}"
        return None


class FuseGelu(Rules):
    """x * (1 + erf(x * sqrt(1/2))) / 2  ==  gelu(x), in any order of the factors.

    Its forms with erfc and with tanh become GELU, too.
    """

    name = "fuse_gelu"
    rules = (
        *_Erf.members(end=GELU_ENDS),
        *_Erfc.members(end=ERFC_ENDS),
        *_ErfcOfNeg.members(end=ERFC_ENDS),
        *_Tanh.members(term=CUBES, total=SUMS_OF_CUBES, end=GELU_ENDS),
        *_Tanh.members(term=SQUARES, total=SUMS_OF_SQUARES, end=GELU_ENDS),
    )


class ReplaceWithFcGeluFc(Rewrite):
    """fc(h * (1 + erf(s)), w)  ==  fc(gelu(h), 2 * w), if h and s are layers of x and s = sqrt(1/2) * h.

    That is, h = fc(x, w1, b1) and s = fc(x, w2, b2) with w2 = sqrt(1/2) * w1 and b2 = sqrt(1/2) * b1.
    """

    name = "replace_with_fc_gelu_fc"

    before = """
        h = FullyConnected(x: f32, w1: const f32[U, K], b1?: const f32[*,U]) {act: NONE, keep_num_dims: any=k}
        s = FullyConnected(x, w2: const f32[U, K], b2?: const f32[*, U])      {keep_num_dims: any = k}
        e = Custom("Erf|FlexErf", s)
        a = Add(e, 1.0)
        m = Mul(h, a)
        z = FullyConnected(m, w3: const f32[_, _], b3?)
    """
    after = """
        f = FullyConnected(x, w1, b1)           {like h}
        g = Gelu(f)                             {approximate: false}
        z = FullyConnected(g, w, b3)            {like z}
    """

    @condition
    def scaled_by_the_root(self, w1: Array, w2: Array, b1: Array | None, b2: Array | None) -> str | None:
        """``w2`` and ``b2`` are sqrt(1/2) times ``w1`` and ``b1``, where an absent bias counts as 0."""
        for of_h, of_s, kind in ((w1, w2, "weights"), (b1, b2, "biases")):
            expected = np.zeros(1) if of_h is None else of_h.reshape(-1).astype(np.float64) * np.sqrt(0.5)
            found = np.zeros(1) if of_s is None else of_s.reshape(-1)
            limit = RELATIVE_TOLERANCE * float(np.abs(expected).max(initial=1e-30))
            # finite numbers have a limit above 0; ``not <`` also refuses infinite numbers and NaN
            if not np.abs(expected - found).max(initial=0) < limit:
                return f"expected the {kind} before Erf to be sqrt(1/2) times those of the other layer"
        return None

    def constants(self, w3: Array) -> dict[str, Array]:
        return {"w": 2 * w3}
