# SPDX-License-Identifier: Apache-2.0
"""Operators become an RMS norm or a rotary embedding only if they compute the same."""

from __future__ import annotations

import itertools

import pytest

from circlekit.ir.text import parse_model
from circlekit.ops.reduction.normalization import RmsNorm, RoPE
from circlekit.passes.engine.explain import explain_pass
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal

SQUARES = ["Mul(%x, %x)", "Square(%x)", "Pow(%x, 2.0)"]
DIVISIONS = [
    "%r = Rsqrt(%a)\n%z = Mul(%x, %r)",
    "%r = Rsqrt(%a)\n%z = Mul(%r, %x)",
    "%r = Sqrt(%a)\n%z = Div(%x, %r)",
]


def rms(
    square: str = SQUARES[0],
    divide: str = DIVISIONS[0],
    axes: str = "[-1]",
    keep: str = "true",
    epsilon: str = "1e-6",
    more: str = "",
    result: str = "%z",
) -> str:
    """Return a norm: %s = ``square``, its mean %m, %a = %m + ``epsilon``, then ``divide`` and ``more``."""
    return f"""graph main(%x: f32[2,3,8], %o: f32[2,3,8], %e: f32[]) -> {result} {{
      %s = {square}
      %m = Mean(%s, {axes}) {{keep_dims: {keep}}}
      %a = Add(%m, {epsilon})
      {divide}
      {more}
    }}"""


@pytest.mark.parametrize(("square", "divide"), list(itertools.product(SQUARES, DIVISIONS)))
def test_rmsnorm(square: str, divide: str) -> None:
    (op,) = check_pass(rms(square, divide), "fuse_rmsnorm", expect_ops=["RmsNorm"]).main.ops
    assert isinstance(op, RmsNorm)
    assert op.epsilon == pytest.approx(1e-6)
    assert op.gamma.array().tolist() == [1.0]


@pytest.mark.parametrize("text", [rms(axes="[2]"), rms(axes="2"), rms(epsilon="[[[1e-3]]]")])
def test_rmsnorm_written_in_other_ways(text: str) -> None:
    check_pass(text, "fuse_rmsnorm", expect_ops=["RmsNorm"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (rms(axes="[1]"), "expected a mean over the last axis alone, got axes [1]"),
        (rms(axes="[1,2]"), "expected a mean over the last axis alone, got axes [1, 2]"),
        (rms(axes="[2,1]"), "expected a mean over the last axis alone, got axes [2, 1]"),
        (rms(epsilon="%e"), "%e: is not constant"),
        (rms(epsilon="0.0"), "expected an epsilon above 0 for RMS_NORM, got 0.0"),
        (rms(epsilon="-1e-3"), "expected an epsilon above 0 for RMS_NORM, got -0.001"),
        (
            rms(epsilon="[1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6]"),
            "shape is [8], expected [*,1]",
        ),
        (rms(square="Mul(%x, %o)"), "expected the same value in two places"),
        (rms(divide="%r = Rsqrt(%a)\n%z = Mul(%o, %r)"), "expected the same value in two places"),
        (rms(more="%n = Neg(%r)", result="%z, %n"), "%r: is also read by Neg"),
        (rms(result="%z, %m"), "%m: is an output of the graph"),
        (rms(divide="%r = Rsqrt(%a)\n%z = Mul(%x, %r) {act: RELU}"), "%z: act is RELU"),
    ],
)
def test_rmsnorm_near_misses(text: str, sentence: str) -> None:
    check_pass(text, "fuse_rmsnorm", refused=sentence)


def test_mean_of_unknown_rank_is_refused() -> None:
    text = rms().replace("f32[2,3,8]", "f32[*]")
    check_refusal(text, "fuse_rmsnorm", "%z: %x has shape [*], expected a known rank")


def test_mean_without_keep_dims_is_refused() -> None:
    text = rms(keep="false").replace("f32[2,3,8]", "f32[8,8]").replace("[-1]", "[1]")
    check_pass(text, "fuse_rmsnorm", refused="%m: keep_dims is False, expected True")


def test_rmsnorm_is_fused_for_circle_only() -> None:
    assert all_passes()["fuse_rmsnorm"].formats == {"circle"}


@pytest.mark.parametrize("factors", ["[1.0, 2.0, 3.0, 4.0, -5.0, 6.0, 7.0, 0.5]", "%g"])
def test_factors_after_a_norm(factors: str) -> None:
    text = f"""graph main(%x: f32[2,3,8]) -> %z {{
      %g = const f32[1,1,8] uniform(1, 2)
      %n = RmsNorm(%x, [1.0]) {{epsilon: 1e-5}}
      %z = Mul({factors}, %n)
    }}"""
    (op,) = check_pass(text, "fuse_mul_with_rmsnorm", expect_ops=["RmsNorm"]).main.ops
    assert isinstance(op, RmsNorm)
    assert op.gamma.shape == (8,)
    assert op.epsilon == pytest.approx(1e-5)


@pytest.mark.parametrize(
    ("factors", "sentence"),
    [
        ("[2.0]", "expected 8 factors, one per channel, got 1"),
        ("%c", "shape is [3,1]"),
        ("%d", "shape is [3,8]"),
        ("%e", "%z: has shape [1,2,3,8], the rewrite gives [2,3,8]"),
        ("%x", "%x: is not constant"),
    ],
)
def test_factors_near_misses(factors: str, sentence: str) -> None:
    text = f"""graph main(%x: f32[2,3,8]) -> %z {{
      %c = const f32[3,1] uniform(1, 2)
      %d = const f32[3,8] uniform(1, 2)
      %e = const f32[1,1,1,8] uniform(1, 2)
      %n = RmsNorm(%x, [1.0]) {{epsilon: 1e-5}}
      %z = Mul(%n, {factors})
    }}"""
    check_pass(text, "fuse_mul_with_rmsnorm", refused=sentence)


def test_factors_of_an_unknown_number_of_channels_are_refused() -> None:
    text = """graph main(%x: f32[2,?]) -> %z {
      %n = RmsNorm(%x, [1.0]) {epsilon: 1e-5}
      %z = Mul(%n, [1.0, 2.0])
    }"""
    sentence = "%x: expected a known number of channels, got shape [2,?]"
    check_refusal(text, "fuse_mul_with_rmsnorm", sentence)


STRIDED = """%lo = StridedSlice(%x, [0,0,0,0], [1,2,3,4], [1,1,1,1])
      %hi = StridedSlice(%x, [0,0,0,4], [1,2,3,8], [1,1,1,1])"""
MASKED = """%lo = StridedSlice(%x, [0,0,0,0], [0,0,0,-4], [1,1,1,1]) {begin_mask: 15, end_mask: 7}
      %hi = StridedSlice(%x, [0,0,0,-4], [0,0,0,0], [1,1,1,1]) {begin_mask: 7, end_mask: 15}"""
SLICED = """%lo = Slice(%x, [0,0,0,0], [1,2,3,4])
      %hi = Slice(%x, [0,0,0,4], [-1,-1,-1,-1])"""
SPLIT = "%lo, %hi = Split(3, %x) {num_splits: 2}"


def rope(
    halves: str = STRIDED,
    join: str = "%c = Concatenation(%n, %lo) {axis: -1}",
    negate: str = "%n = Neg(%hi)",
    tables: str = "f32[1,1,1,8]",
    sum: str = "%z = Add(%p, %q)",
    result: str = "%z",
    x: str = "f32[1,2,3,8]",
) -> str:
    """Return a rotary embedding: ``halves`` make %lo and %hi, ``negate`` %n, ``join`` %c, and ``sum`` %z."""
    return f"""graph main(%x: {x}, %cos: {tables}, %sin: {tables}) -> {result} {{
      {halves}
      {negate}
      {join}
      %p = Mul(%x, %cos)
      %q = Mul(%c, %sin)
      {sum}
    }}"""


@pytest.mark.parametrize("halves", [STRIDED, MASKED, SLICED, SPLIT])
def test_rope(halves: str) -> None:
    (op,) = check_pass(rope(halves), "fuse_rope", expect_ops=["RoPE"]).main.ops
    assert [v.name for v in op.inputs if v is not None] == ["x", "sin", "cos"]
    assert op.attribute_items()["mode"].name == "GPT_NEOX"


@pytest.mark.parametrize(
    ("halves", "dims"),
    [
        (SPLIT, "1,65536,4194304,8"),  # 2^41 elements: no array of their indices fits the memory
        (SPLIT, "1,2,2147483647,8"),
        (SLICED.replace("[1,2,3,4]", "[1,-1,-1,4]"), "1,65536,4194304,8"),
        (SPLIT, "65536,65536,1048576,8"),
    ],
)
def test_rope_of_sizes_beyond_memory(halves: str, dims: str) -> None:
    model = parse_model(rope(halves, x=f"f32[{dims}]"))
    assert all_passes()["fuse_rope"]().run(model, Context("circle"))


def test_reversed_rows_are_no_half() -> None:
    halves = STRIDED.replace("[0,0,0,0], [1,2,3,4], [1,1,1,1]", "[0,-1,0,0], [1,-3,3,4], [1,-1,1,1]")
    check_pass(rope(halves), "fuse_rope", refused="%lo: is not the first half of %x's last axis")


def sines_negated(table: str) -> str:
    """Return the embedding without Neg: the sines in the constant ``table`` have the sign instead."""
    text = rope(negate=f"%s = const {table}", join="%c = Concatenation(%hi, %lo) {axis: 3}")
    return text.replace("Mul(%c, %sin)", "Mul(%c, %s)")


def test_rope_with_the_sign_in_the_sines() -> None:
    text = sines_negated("f32[8] [-1,-2,-3,-4,5,6,7,8]")
    (op,) = check_pass(text, "fuse_rope", expect_ops=["RoPE"]).main.ops
    assert isinstance(op, RoPE)
    assert op.sin_table.array().tolist() == [[[[1, 2, 3, 4, 5, 6, 7, 8]]]]


def test_negated_sines_of_several_positions_are_refused() -> None:
    check_pass(sines_negated("f32[3,8] uniform(-1, 1)"), "fuse_rope", refused="%s: expected one row")


def halves_apart(table: str = "f32[4]", second: str = "Add(%c, %d)") -> str:
    """Return the embedding with a sum for each half of the result, which are joined at the end."""
    return f"""graph main(%x: f32[1,2,3,8]) -> %z {{
      %cos = const {table} uniform(-1, 1)
      %sin = const {table} uniform(-1, 1)
      {SPLIT}
      %a = Mul(%lo, %cos)
      %b = Mul(%hi, %sin)
      %f = Sub(%a, %b)
      %c = Mul(%hi, %cos)
      %d = Mul(%lo, %sin)
      %s = {second}
      %z = Concatenation(%f, %s) {{axis: 3}}
    }}"""


def test_rope_of_halves_apart() -> None:
    (op,) = check_pass(halves_apart(), "fuse_rope", expect_ops=["RoPE"]).main.ops
    assert isinstance(op, RoPE)
    assert op.sin_table.shape == op.cos_table.shape == (1, 1, 1, 8)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (halves_apart("f32[3,4]"), "a row per position"),
        (halves_apart("f32[1]"), "expected a row of 4, got shape [1]"),
        (halves_apart(second="Sub(%c, %d)"), "comes from Sub, expected Add"),
    ],
)
def test_halves_apart_near_misses(text: str, sentence: str) -> None:
    check_pass(text, "fuse_rope", refused=sentence)


@pytest.mark.parametrize("tables", ["f32[8]", "f32[1,8]"])
def test_rope_tables_of_lower_rank_are_refused(tables: str) -> None:
    check_pass(rope(tables=tables), "fuse_rope", refused="expected rank 4")


def test_rope_joined_along_axis_3() -> None:
    check_pass(rope(join="%c = Concatenation(%n, %lo) {axis: 3}"), "fuse_rope", expect_ops=["RoPE"])


@pytest.mark.parametrize("shape", ["*", "?,2,3,8", "2,3,8", "1,1,2,3,8"])
def test_rope_needs_a_static_shape_of_rank_4(shape: str) -> None:
    text = rope(SPLIT.replace("3,", "-1,"), x=f"f32[{shape}]")
    check_refusal(text, "fuse_rope", "%x: expected a static shape of rank 4")


def test_rope_needs_tables_of_known_shape() -> None:
    check_refusal(rope(SPLIT, tables="f32[*]"), "fuse_rope", "expected a row of 8, got shape [*]")


def test_rope_in_the_other_order() -> None:
    check_pass(rope(sum="%z = Add(%q, %p)"), "fuse_rope", expect_ops=["RoPE"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (rope(tables="f32[1,1,3,8]"), "a row per position"),
        (rope(tables="f32[1,2,1,8]"), "a row per position"),
        (rope(tables="f32[1]"), "expected a row of 8, got shape [1]"),
        (
            rope(
                STRIDED.replace("[1,2,3,4]", "[1,2,3,5]").replace(
                    "[0,0,0,4], [1,2,3,8]", "[0,0,0,5], [1,2,3,9]"
                ),
                x="f32[1,2,3,9]",
                tables="f32[9]",
            ),
            "even last dimension",
        ),
        (
            rope(STRIDED.replace("[0,0,0,4]", "[0,0,0,3]").replace("[1,2,3,8]", "[1,2,3,7]")),
            "is not the second half",
        ),
        (
            rope(STRIDED.replace("[1,1,1,1]", "[1,1,1,2]", 1).replace("[1,2,3,4]", "[1,2,3,8]")),
            "is not the first half",
        ),
        (rope(sum="%z = Add(%p, %q) {act: RELU}"), "%z: act is RELU"),
        (rope(result="%z, %n"), "%n: is an output of the graph"),
        (
            rope(negate="%n = Neg(%lo)", join="%c = Concatenation(%n, %hi) {axis: -1}"),
            "%hi: is not the first half of %x's last axis",
        ),
    ],
)
def test_rope_near_misses(text: str, sentence: str) -> None:
    check_pass(text, "fuse_rope", refused=sentence)


def test_halves_joined_along_another_axis_are_refused() -> None:
    text = """graph main(%x: f32[1,1,8,8], %cos: f32[8], %sin: f32[8]) -> %z {
      %lo = Slice(%x, [0,0,0,0], [1,1,4,8])
      %hi = Slice(%x, [0,0,4,0], [1,1,4,8])
      %n = Neg(%hi)
      %c = Concatenation(%n, %lo) {axis: 2}
      %p = Mul(%x, %cos)
      %q = Mul(%c, %sin)
      %z = Add(%p, %q)
    }"""
    check_pass(text, "fuse_rope", refused="expected the halves to be joined along the last axis, got axis 2")


def test_refusal_is_reported_once_per_operator() -> None:
    refusals = explain_pass(parse_model(rms(epsilon="0.0")), "fuse_rmsnorm", "circle")
    assert [refusal.sentence for refusal in refusals] == [
        "%x: expected an epsilon above 0 for RMS_NORM, got 0.0"
    ]


def test_factors_after_factors() -> None:
    text = """
        graph main(%x: f32[2,3]) -> %z {
          %n = RmsNorm(%x, [2.0, 0.5, -1.0]) {epsilon: 1e-5}
          %z = Mul(%n, [[3.0, 1.0, 2.0]])
        }
    """
    (op,) = check_pass(text, "fuse_mul_with_rmsnorm", expect_ops=["RmsNorm"]).main
    assert isinstance(op, RmsNorm)
    assert op.gamma.array().tolist() == [6.0, 0.5, -2.0]
