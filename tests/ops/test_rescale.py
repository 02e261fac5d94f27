# SPDX-License-Identifier: Apache-2.0
"""What becomes of sums, against integers and fractions: before and behind every step, and at the ends."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from circlekit.ops.numerics.fixed_point import QuantizedMultiplier
from circlekit.ops.numerics.requantize import DoubleScale, InDoubles, InFloats, double_scale, fixed_point
from circlekit.ops.numerics.stores import Span, Store

EXAMPLES = settings(max_examples=120, deadline=None, derandomize=True)

MANTISSAS = st.one_of(
    st.integers(1 << 30, (1 << 31) - 1),
    st.sampled_from([1 << 30, (1 << 31) - 1, 3 << 29, (1 << 30) + 1, 5 << 28]),  # many halves
)
DTYPES = st.sampled_from([np.int8, np.uint8])


def limited(x: int, span: Span) -> int:
    return min(max(x + span.zero, span.limits[0]), span.limits[1])


def half_up(numerator: int, bits: int) -> int:
    return (numerator + (1 << bits >> 1)) >> bits


def half_away(x: Fraction) -> int:
    return floor(abs(x) + Fraction(1, 2)) * (1 if x >= 0 else -1)


def twice_rounded(x: int, mantissa: int, shift: int) -> int:
    high = half_up((x << max(shift, 0)) * mantissa, 31)
    return half_away(Fraction(high, 1 << max(-shift, 0)))


@st.composite
def spans(draw: st.DrawFn, dtype: type[np.integer], bound: float) -> Span:
    """Any zero point; limits as activations make them, or anywhere."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    zero = draw(st.one_of(st.sampled_from([least, most, 0]), st.integers(least, most)))
    zero = min(max(zero, least), most)
    low = draw(st.sampled_from([least, max(least, zero), max(least, zero - 3)]))
    high = draw(st.sampled_from([most, min(most, zero + 9), most - 1]))
    return Span(zero, (low, max(high, low)), bound)


def around_steps(scale: float, bias: int, span: Span) -> list[int]:
    """Sums before and behind the places where results change, and the largest."""
    bound = int(span.bound)
    wanted = range(span.limits[0] - span.zero - 1, span.limits[1] - span.zero + 2)
    steps = [round((k - 0.5) / scale) - bias for k in wanted]
    sums = [s + d for s in steps for d in (-2, -1, 0, 1, 2)] + [0, 1, -1, -bias, bound, -bound]
    return [s for s in sums if abs(s) <= bound]


def results(store: Store, sums: list[int], dtype: type[np.integer], rows: int) -> list[int]:
    """What ``store`` makes of ``sums``, ``rows`` vectors of one channel, as floats that hold them."""
    wide = np.float64 if max(map(abs, sums), default=0) >= 1 << 24 else np.float32
    columns = -(-len(sums) // rows)
    padded = np.zeros((rows, columns, 1), wide)
    padded.reshape(-1)[: len(sums)] = sums
    out = np.empty(padded.shape, dtype)
    store(padded, out)
    return [int(x) for x in out.reshape(-1)[: len(sums)]]


@EXAMPLES
@given(st.data(), MANTISSAS, st.integers(-13, 3), DTYPES)
def test_fixed_point_next_to_every_step(
    data: st.DataObject, mantissa: int, shift: int, dtype: type[np.integer]
) -> None:
    span = data.draw(spans(dtype, 2.0 ** data.draw(st.integers(6, 26))))
    bias = data.draw(st.integers(-int(span.bound), int(span.bound)) | st.none())
    store = fixed_point(
        QuantizedMultiplier(np.array(mantissa), np.array(shift)),
        None if bias is None else np.array([bias]),
        span,
        wide=False,
    )
    sums = around_steps(mantissa / 2**31 * 2.0**shift, bias or 0, span)
    wanted = [limited(twice_rounded(s + (bias or 0), mantissa, shift), span) for s in sums]
    assert results(store, sums, dtype, rows=1) == wanted


@EXAMPLES
@given(st.data(), st.integers(1 << 14, (1 << 15) - 1), st.integers(-24, 3))
def test_sums_of_16_bits_next_to_every_step(data: st.DataObject, short: int, shift: int) -> None:
    span = Span(0, data.draw(st.sampled_from([(-(1 << 15), (1 << 15) - 1), (0, (1 << 15) - 1)])), 2.0**38)
    span = span._replace(bound=2.0 ** data.draw(st.integers(10, 38)))
    bias = data.draw(st.integers(-(1 << 20), 1 << 20) | st.none())
    by = QuantizedMultiplier(np.array(short << 16), np.array(shift))
    store = fixed_point(by, None if bias is None else np.array([bias]), span, wide=True)
    some = data.draw(st.lists(st.integers(-(1 << 15), 1 << 15), min_size=1, max_size=50))
    steps = [round((k - 0.5) / (short / 2**15 * 2.0**shift)) - (bias or 0) for k in some]
    sums = [s + d for s in steps for d in (-1, 0, 1) if abs(s) + 1 <= span.bound]
    wanted = [limited(half_up((s + (bias or 0)) * short, 15 - shift), span) for s in sums]
    if sums:
        assert results(store, sums, np.int16, rows=1) == wanted


@EXAMPLES
@given(st.data(), st.floats(2.0**-20, 2.0, allow_subnormal=False), DTYPES)
def test_double_scale_next_to_every_step(data: st.DataObject, by: float, dtype: type[np.integer]) -> None:
    by = data.draw(st.sampled_from([by, 2.0 ** round(np.log2(by)), 1.5 * 2.0 ** round(np.log2(by))]))
    span = data.draw(spans(dtype, 2.0 ** data.draw(st.integers(6, 26))))
    bias = data.draw(st.integers(-int(span.bound), int(span.bound)) | st.none())
    store = double_scale(np.array(by), None if bias is None else np.array([bias]), span, wide=False)
    sums = around_steps(by, bias or 0, span)
    wanted = [limited(half_away(Fraction(float(s + (bias or 0)) * by)), span) for s in sums]
    assert results(store, sums, dtype, rows=1) == wanted


def test_doubles_just_below_a_half_are_rounded_down() -> None:
    """0.49999999999999994 + 0.5 is 1 in float64; here it is 0.  Products with such a fraction are rare."""
    below = float(np.nextafter(0.5, 0))
    for zero in (-128, 5):
        store = double_scale(np.array(below), None, Span(zero, (-128, 127), 100.0), wide=False)
        assert isinstance(store, InDoubles)
        assert results(store, [1, -1, 3], np.int8, rows=1) == [zero, max(zero - 0, -128), zero + 1]


def test_products_beyond_int32_are_not_taken_for_others() -> None:
    span = Span(-3, (-128, 127), 2.0**30)
    assert isinstance(double_scale(np.array(4.0), None, span, wide=False), DoubleScale)
    assert isinstance(double_scale(np.array(0.5), None, span, wide=False), InDoubles)


@EXAMPLES
@given(st.integers(1, 400), st.integers(1, 300), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1))
def test_blocks_of_any_shape(rows: int, channels: int, per_channel: bool, strided: bool, seed: int) -> None:
    """Each channel has its own numbers, however many rows a block has, and wherever results go."""
    rng = np.random.default_rng(seed)
    rows = rows * (50 if channels < 20 else 1)
    count = channels if per_channel else 1
    mantissa = rng.integers(1 << 30, 1 << 31, count)
    shift = rng.integers(-9, -5, count)
    bias = rng.integers(-3000, 3000, channels)
    span = Span(int(rng.integers(-128, 128)), (-128, 127), 2.0**19)
    store = fixed_point(QuantizedMultiplier(mantissa, shift), bias, span, wide=False)
    assert isinstance(store, InFloats)
    sums = rng.integers(-(1 << 15), 1 << 15, (rows, channels))
    out = np.empty((rows, 2 * channels), np.int8)[:, ::2] if strided else np.empty(sums.shape, np.int8)
    store(sums.astype(np.float32), out)
    at = rng.integers(0, rows, 20), rng.integers(0, channels, 20)
    for row, channel in zip(*at, strict=True):
        which = channel if per_channel else 0
        product = twice_rounded(
            int(sums[row, channel] + bias[channel]), int(mantissa[which]), int(shift[which])
        )
        assert out[row, channel] == limited(product, span)
