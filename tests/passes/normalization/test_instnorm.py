# SPDX-License-Identifier: Apache-2.0
"""Instance norm in all forms of exporters, and near misses in axes, parameters and epsilon."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlekit
from circlekit.ir.text import parse_model
from circlekit.ops.reduction.normalization import InstanceNorm
from circlekit.passes.normalization.fuse_instnorm import FuseInstNorm
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal

SQUARES = (
    "%q = SquaredDifference(%x, %m)",
    "%e = Sub(%x, %m)\n%q = Square(%e)",
    "%e = Sub(%x, %m)\n%q = Mul(%e, %e)",
)
INSIDE = "%a = Add(%v, 1e-3)\n"
QUOTIENTS = (
    INSIDE + "%r = Rsqrt(%a)\n%n = Mul(%d, %r)",
    INSIDE + "%r = Sqrt(%a)\n%n = Div(%d, %r)",
    INSIDE + "%r = Pow(%a, 0.5)\n%n = Div(%d, %r)",
    "%o = Sqrt(%v)\n%r = Add(%o, 1e-9)\n%n = Div(%d, %r)",
)
GAMMA, BETA = "[2.0, 0.5, -1.0]", "[0.1, 0.2, 0.3]"
CENTERED = "%d = Sub(%x, %m)\n{quotient}\n%t = Mul(%n, {gamma})\n%z = Add(%t, {beta}) {{act: RELU}}"
SUMS = (
    "%d = Sub(%x, %m)\n%t = Mul(%d, %f)\n%z = Add(%t, {beta})",
    "%p = Mul(%x, %f)\n%o = Mul(%m, %f)\n%h = Sub({beta}, %o)\n%z = Add(%p, %h) {{act: RELU6}}",
    "%p = Mul(%x, %f)\n%o = Mul(%f, %m)\n%h = Sub({beta}, %o)\n%z = Add(%h, %p)",
    "%p = Mul(%x, %f)\n%i = Neg(%m)\n%o = Mul(%i, %f)\n%h = Add({beta}, %o)\n%z = Add(%p, %h)",
)
SCALED = "%a = Add(%v, 1e-3)\n%r = Rsqrt(%a)\n%f = Mul(%r, {gamma})\n"


def norm(
    body: str = CENTERED,
    square: str = SQUARES[0],
    quotient: str = QUOTIENTS[0],
    gamma: str = GAMMA,
    beta: str = BETA,
    shape: str = "[2,4,5,3]",
    axes: Sequence[str] = ("[1,2]", "[1,2]"),
    keep: str = "{keep_dims: true}",
    outputs: str = "%z",
) -> str:
    """Return a norm: the mean %m of %x, %q made by ``square``, the variance %v, and %z made by ``body``."""
    return f"""graph main(%x: f32{shape}, %c: f32[3]) -> {outputs} {{
      %m = Mean(%x, {axes[0]}) {keep}
      {square}
      %v = Mean(%q, {axes[1]}) {keep}
      {body.format(gamma=gamma, beta=beta, quotient=quotient)}
    }}"""


def check_fused(text: str) -> InstanceNorm:
    """Check that the pass fuses the whole model of ``text``; return the fused operator."""
    (op,) = check_pass(text, "fuse_instnorm", ["InstanceNorm"]).main.ops
    assert isinstance(op, InstanceNorm)
    assert op.gamma.shape == op.beta.shape == (3,)
    return op


@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize("quotient", QUOTIENTS)
def test_centered_then_divided(square: str, quotient: str) -> None:
    op = check_fused(norm(square=square, quotient=quotient))
    assert op.gamma.array().tolist() == [2.0, 0.5, -1.0]
    assert op.epsilon == pytest.approx(1e-3 if "1e-3" in quotient else 1e-9**2)


@pytest.mark.parametrize("quotient", QUOTIENTS)
def test_without_gamma_and_beta(quotient: str) -> None:
    op = check_fused(norm("%d = Sub(%x, %m)\n{quotient}", quotient=quotient, outputs="%n"))
    assert (op.gamma.array().tolist(), op.beta.array().tolist()) == ([1, 1, 1], [0, 0, 0])


@pytest.mark.parametrize("body", SUMS)
@pytest.mark.parametrize("square", SQUARES[:2])
def test_x_is_multiplied_by_gamma_times_the_reciprocal(body: str, square: str) -> None:
    """Without gamma, x is multiplied by the reciprocal r."""
    check_fused(norm(SCALED + body, square))
    if "%d" not in body:
        check_fused(norm(SCALED.replace("%f = Mul(%r, {gamma})", "") + body.replace("%f", "%r"), square))


def test_second_mean_of_the_same_value() -> None:
    again = "%m2 = Mean(%x, [-3, -2]) {keep_dims: true}\n%e = Sub(%x, %m2)\n%q = Square(%e)"
    check_fused(norm(square=again))


@pytest.mark.parametrize("number", ["2.0", "[2.0]", "[[[[2.0]]]]", "[[[[2.0, 3.0, 4.0]]]]"])
def test_parameters_of_other_shapes(number: str) -> None:
    check_fused(norm(gamma=number, beta=number))


def test_mean_may_have_other_users() -> None:
    check_pass(norm(outputs="%z, %m"), "fuse_instnorm", ["Mean", "InstanceNorm"])


def test_rank_3_has_its_channel_axis_in_the_middle() -> None:
    column = "[[[0.5], [1.0], [2.0]]]"
    check_fused(norm(shape="[2,3,5]", axes=("[2]", "[2]"), gamma=column, beta=column))
    check_fused(norm(shape="[2,3,5]", axes=("[-1]", "[2]"), gamma=column, beta="0.5"))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ("[1,4,5,3]", ("[0,1,2]", "[1,2]")),
        ("[1,4,5,3]", ("[1,2]", "[0,1,2]")),
        ("[2,4,1,3]", ("[1]", "[1,2]")),
        ("[2,1,5,3]", ("[2]", "[2]")),
    ],
)
def test_a_mean_over_an_axis_of_dimension_1_makes_no_difference(shape: str, axes: Sequence[str]) -> None:
    check_fused(norm(SCALED + SUMS[1], shape=shape, axes=axes))


@pytest.mark.parametrize("axes", ["[1,2,4]", "[1,2]", "[-4,-3,-1]"])
def test_between_reshapes(axes: str) -> None:
    column = "[[[[[0.5], [1.0], [2.0]]]]]"
    text = norm(SCALED + SUMS[3], SQUARES[1], gamma=column, beta=column, axes=(axes, axes))
    text = text.replace("%x", "%s").replace("(%s: f32", "(%x: f32").replace("-> %z", "-> %y")
    text = text.replace("%m =", "%s = Reshape(%x, [-1,4,5,3,1])\n%m =", 1)
    check_fused(text[:-1] + "%y = Reshape(%z, [2,4,5,3])\n}")
    check_pass(
        text[:-1] + "%y = Reshape(%z, [2,4,15])\n}",
        "fuse_instnorm",
        refused="%y: has shape [2,4,15], the rewrite gives [2,4,5,3]",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (norm(axes=("[1,2]", "[1,2,3]")), "%v: expected a mean over the axes [1, 2], got [1, 2, 3]"),
        (norm(axes=("[0,1,2]", "[1,2]")), "%m: expected a mean over the axes [1, 2], got [0, 1, 2]"),
        (norm(shape="[?,4,5,3]", axes=("[0,1,2]", "[1,2]")), "expected a mean over the axes [1, 2]"),
        (norm(axes=("[3]", "[1,2]")), "%m: expected a mean over the axes [1, 2], got [3]"),
        (norm(SCALED + SUMS[1], axes=("[1]", "[1]")), "%m: expected a mean over the axes [1, 2], got [1]"),
        (
            norm(SCALED + SUMS[1], gamma="[[[[1.0]],[[2.0]],[[1.0]],[[1.0]]]]"),
            "expected one number, or one for each channel",
        ),
        (
            norm(SCALED + SUMS[1], beta="[[[[1.0]],[[2.0]],[[1.0]],[[1.0]]]]"),
            "expected one number, or one for each channel",
        ),
        (norm(SCALED + SUMS[1], gamma="%c"), "%c: is not constant"),
        (norm(SCALED.replace("1e-3", "[1e-3, 1e-3, 1e-3]") + SUMS[1]), "shape is [3], expected"),
        (norm(SCALED.replace("1e-3", "-1e-3") + SUMS[1]), "expected an epsilon of 0 or more, got -0.001"),
        (norm(SCALED.replace("1e-3", "0.0") + SUMS[0]), "expected an epsilon above 0, got 0"),
        (norm(SCALED.replace("Mul(%r, {gamma})", "Mul(%r, {gamma}) {{act: RELU}}") + SUMS[1]), "act is RELU"),
        (norm(SCALED + SUMS[1], outputs="%z, %h"), "%h: is an output of the graph"),
        (norm(SCALED + SUMS[1], outputs="%z, %v"), "%v: is an output of the graph"),
        (
            norm(shape="[2,4,5,3,3]", axes=("[1,2]", "[1,2]")),
            "expected [N,H,W,C] or [N,C,W]",
        ),
        (norm(shape="[3,3,3,3]", axes=("[1,2]", "[1,2]"), keep="", gamma="0.1"), "keep_dims is False"),
        (
            norm(quotient=QUOTIENTS[3].replace("1e-9", "1e-3")),
            "expected an epsilon from 0 to 1e-05, got 0.001",
        ),
    ],
)
def test_near_misses(text: str, sentence: str) -> None:
    check_pass(text, "fuse_instnorm", refused=sentence)


@pytest.mark.parametrize(
    ("shape", "reshaped", "axes"),
    [
        ("[2,3,5]", "[2,3,5,1]", "[2]"),
        ("[2,4,5,3]", "[2,4,5,1,3]", "[1,2]"),
        ("[2,4,5,3]", "[2,4,15,1,1]", "[1,2]"),
    ],
)
def test_other_reshapes_in_front_stay(shape: str, reshaped: str, axes: str) -> None:
    text = norm(SCALED + SUMS[3], SQUARES[1], gamma="0.5", beta="0.25", axes=(axes, axes), shape=shape)
    text = text.replace("%x", "%s").replace("(%s: f32", "(%x: f32").replace("-> %z", "-> %y")
    text = text.replace("%m =", f"%s = Reshape(%x, {reshaped})\n%m =", 1)
    sentence = f"%s: expected [N,H,W,C,1], got shape {reshaped}"
    check_refusal(text[:-1] + f"%y = Reshape(%z, {shape})\n}}", "fuse_instnorm", sentence)


@pytest.mark.parametrize("quotient", QUOTIENTS[:2])
def test_an_epsilon_of_0_is_fused_if_a_constant_image_gives_nan(quotient: str) -> None:
    """``check_pass`` also runs the model on zeros, a constant image."""
    check_fused(norm(quotient=quotient.replace("1e-3", "0.0")))


def test_parameters_per_row_or_after_an_activation_are_not_fused() -> None:
    rows = "[[[[1.0]],[[2.0]],[[1.0]],[[1.0]]]]"
    check_pass(norm(gamma=rows), "fuse_instnorm", ["InstanceNorm", "Mul", "Add"])
    check_pass(norm(quotient=QUOTIENTS[1] + " {act: RELU}"), "fuse_instnorm", ["InstanceNorm", "Mul", "Add"])


BESIDE = """graph main(%x: f32[1,3,4,2]) -> %z {
  %m = Mean(%x, [1,2]) {keep_dims: true}
  %s = Sub(%x, %m)
  %q = Square(%s)
  %v = Mean(%q, [1,2]) {keep_dims: true}
  %r = Sqrt(%v)
  %a = Add(%r, 1e-6)
  %z = Div(%s, %a)
}"""


def test_epsilon_outside_the_root_is_fused_on_request_only() -> None:
    """The result is approximate, and far off for a small variance, so pipelines do not fuse it."""
    for passes in ("fuse_instnorm", ["O1", "fuse_instnorm"]):
        asked = parse_model(BESIDE)
        circlekit.optimize(asked, passes)
        assert [op.code for op in asked.main] == ["INSTANCE_NORM"]
    for passes in ("O1", ["O1", "remove_dropout"]):  # a pass that is named beside a pipeline changes nothing
        pipeline = parse_model(BESIDE)
        circlekit.optimize(pipeline, passes)
        assert "INSTANCE_NORM" not in [op.code for op in pipeline.main]


@pytest.mark.parametrize("size", [1e-2, 1.0, 1e3])
def test_tiny_epsilon_outside_the_root_is_fused_in_pipelines(size: float) -> None:
    """The relative error is at most 1e-5 for deviations of 1e-3 or more."""
    model = parse_model(BESIDE.replace("1e-6", "1e-8"))
    x = (size * np.random.default_rng(3).standard_normal((1, 3, 4, 2))).astype(np.float32)
    (wanted,) = circlekit.run(model, [x])
    circlekit.optimize(model, "O1")
    assert [op.code for op in model.main] == ["INSTANCE_NORM"]
    np.testing.assert_allclose(circlekit.run(model, [x])[0], wanted, 0, 1e-5 * np.abs(wanted).max())


PARAMETERS = [
    *([], [1], [3], [1, 1], [1, 3], [3, 1], [3, 3], [1, 1, 3], [1, 3, 1], [3, 1, 1], [2, 1, 1], [2, 3, 1]),
    *([1, 1, 1, 3], [1, 1, 3, 1], [1, 3, 1, 1], [2, 1, 1, 1], [2, 1, 1, 3]),
]
IMAGES = [((2, 3, 3, 3), "[1,2]", 3), ((2, 3, 3), "[2]", 1)]
"""Shape of x, axes of the means, axis of the channels.  There are as many rows and columns as channels."""


def broadcasts_to(shape: list[int], image: tuple[int, ...]) -> bool:
    """Return whether ``shape`` broadcasts to the shape ``image``."""
    pairs = zip(shape[::-1], image[::-1], strict=False)
    return len(shape) <= len(image) and all(size in (1, wanted) for size, wanted in pairs)


@pytest.mark.parametrize(
    ("image", "axes", "channel_axis", "shape"),
    [(*image, shape) for image in IMAGES for shape in PARAMETERS if broadcasts_to(shape, image[0])],
    ids=str,
)
def test_parameters_are_fused_if_they_depend_on_the_channel_alone(
    image: tuple[int, ...], axes: str, channel_axis: int, shape: list[int]
) -> None:
    """The test decides by broadcasting whether each channel has one number."""
    numbers = np.arange(1.0, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    by_channel = np.moveaxis(np.broadcast_to(numbers, image), channel_axis, 0)
    rows = by_channel.reshape(image[channel_axis], -1)
    is_per_channel = bool((rows == rows[:, :1]).all())
    for gamma, beta in (("%k", "0.5"), ("2.0", "%k")):
        model = parse_model(f"""graph main(%x: f32{list(image)}) -> %z {{
          %k = const f32{shape} {numbers.tolist()}
          %m = Mean(%x, {axes}) {{keep_dims: true}}
          %q = SquaredDifference(%x, %m)
          %v = Mean(%q, {axes}) {{keep_dims: true}}
          %a = Add(%v, 0.001)
          %r = Rsqrt(%a)
          %f = Mul(%r, {gamma})
          %d = Sub(%x, %m)
          %t = Mul(%d, %f)
          %z = Add(%t, {beta})
        }}""")
        assert bool(FuseInstNorm().run(model, Context())) is is_per_channel
        if is_per_channel:
            (fused,) = model.main
            constant = fused.inputs[1 if gamma == "%k" else 2]
            assert constant is not None
            np.testing.assert_array_equal(constant.array(), rows[:, 0])
