# SPDX-License-Identifier: Apache-2.0
"""TransposeConv, Mul, Add through circlekit optimize: both formats, LiteRT, messages of refusals."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.cli.optimize import optimize as main
from circlekit.equivalence.litert import run_litert
from circlekit.ops.convolution.conv import TransposeConv

TOLERANCE = 1e-5
"""The allowed difference, as a fraction of the largest magnitude of the result."""

PASS = "fuse_batchnorm_with_tconv"

SCALES = {"[O]": "[2.0, -1.5, 0.5]", "[1,1,1,O]": "[[[[2.0, -1.5, 0.5]]]]", "scalar": "0.75", "[1]": "[0.75]"}

SHIFTS = ["[-2.0, 0.1, 0.0]", "[[[[-2.0, 0.1, 0.0]]]]", "0.25"]

FORMS = list(itertools.product(SCALES, (False, True), (False, True)))
"""(key of SCALES, whether the operands of Mul are swapped, whether there is a bias)."""

SIZES = list(itertools.product(("VALID", "SAME"), (1, 2, 3), (1, 2, 3)))
"""(padding, stride_h, stride_w)."""

ACTIVATIONS = ("NONE", "RELU", "RELU6")


def graph(
    padding: str = "SAME",
    strides: tuple[int, int] = (2, 1),
    mul: str = "%y, [2.0, -1.5, 0.5]",
    add: str = "%m, [-2.0, 0.1, 0.0]",
    bias: bool = False,
    act: str = "NONE",
    outputs: str = "%z",
    more: str = "",
) -> str:
    """Return the text of a model with an input of 4 x 5 and filters of 3 x 2.

    ``mul``, ``add``: the operands of Mul and Add.  ``act``: the activation of Add.  ``more``: further lines.
    """
    sizes = [
        n * s if padding == "SAME" else (n - 1) * s + k
        for n, s, k in zip((4, 5), strides, (3, 2), strict=True)
    ]
    return f"""graph main(%x: f32[2,4,5,2], %dyn: f32[3]) -> {outputs} {{
      %w = const f32[3,3,2,2] gaussian(0, 1)
      %b = const f32[3] [0.5, -1.0, 2.0]
      %y = TransposeConv([2,{sizes[0]},{sizes[1]},3], %w, %x{", %b" if bias else ""})
           {{padding: {padding}, stride_h: {strides[0]}, stride_w: {strides[1]}}}
      %m = Mul({mul})
      %z = Add({add}) {{act: {act}}}
      {more}
    }}"""


def convert(text: str, folder: Path, *flags: str) -> tuple[circlekit.Model, dict[str, circlekit.Model]]:
    """Return the model of ``text``, and the models that the command wrote, by extension."""
    source = folder / "in.txt"
    source.write_text(text)
    written = {}
    for extension in ("circle", "tflite"):
        target = folder / f"out.{extension}"
        assert main([*flags, "--verify", str(source), str(target)]) == 0
        written[extension] = circlekit.load(target)
    return circlekit.load(source), written


@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize(("padding", "stride_h", "stride_w"), SIZES)
def test_becomes_one_operator(padding: str, stride_h: int, stride_w: int, act: str, tmp_path: Path) -> None:
    """In a circle file, an activation is an operator of its own.

    To save time, each size with each activation is tested with one form only.  The forms are chosen so that
    each form is tested with both paddings.
    """
    number = SIZES.index((padding, stride_h, stride_w)) * 3 + ACTIVATIONS.index(act)
    scale, swap, bias = FORMS[number * 5 % len(FORMS)]
    shift = SHIFTS[number % len(SHIFTS)]
    mul = f"{SCALES[scale]}, %y" if swap else f"%y, {SCALES[scale]}"
    add = f"{shift}, %m" if number % 4 == 1 else f"%m, {shift}"
    text = graph(padding, (stride_h, stride_w), mul, add, bias, act)
    original, written = convert(text, tmp_path, "--O1" if number % 5 else f"--{PASS}")
    random = np.random.default_rng(number)
    inputs = [random.standard_normal(v.static_shape).astype(np.float32) for v in original.main.inputs]
    (wanted,) = circlekit.run(original, inputs)
    for extension, model in written.items():
        kinds = [op.code for op in model.main.ops]
        split = extension == "circle" and act != "NONE"  # circle's runtimes need an operator for it
        assert kinds == ["TRANSPOSE_CONV", *([act] if split else [])]
        tconv = model.main.ops[0]
        assert isinstance(tconv, TransposeConv)
        assert tconv.bias is not None
        assert tconv.bias.shape == (3,)
        assert tconv.version == (3 if act == "NONE" or split else 4)
        assert [v.name for v in model.main.outputs] == ["z"]
        (found,) = circlekit.run(model, inputs)
        np.testing.assert_allclose(found, wanted, 0, TOLERANCE * float(np.abs(wanted).max()))
    (found,) = run_litert((tmp_path / "out.tflite").read_bytes(), inputs)
    np.testing.assert_allclose(found, wanted, 0, TOLERANCE * float(np.abs(wanted).max()))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            graph(mul="%y, 2.0) {act: RELU").replace("RELU)", "RELU}"),
            "%m: act is RELU, expected NONE",
        ),
        (graph(outputs="%z, %o", more="%o = Neg(%m)"), "%m: is also read by Neg %o"),
        (graph(outputs="%z, %o", more="%o = Neg(%y)"), "%y: is also read by Neg %o"),
        (graph(outputs="%z, %m"), "%m: is an output of the graph, the picture would lose it"),
        (graph(outputs="%y, %z"), "%y: is an output of the graph, the picture would lose it"),
        (graph(mul="%y, %dyn"), "%dyn: is not constant, expected const f32[*,O|1]"),
        (graph(add="%m, %dyn"), "%dyn: is not constant, expected const f32[*,O|1]"),
        (
            graph(bias=True).replace("%x, %b)", "%x, %dyn)"),
            "%dyn: is not constant, expected const f32[*,O]",
        ),
        (
            graph(mul="%y, [[2.0], [1.0], [3.0], [1.0], [2.0]]"),
            "shape is [5,1], expected [*,O|1] with O = 3",
        ),
    ],
)
def test_is_refused(text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal is reported, and the model is unchanged."""
    _, written = convert(text, tmp_path, f"--{PASS}", "--explain", PASS)
    shown = " ".join(capsys.readouterr().out.split())
    assert sentence in shown
    for model in written.values():
        kinds = [op.code for op in model.main.ops]
        assert kinds[:3] == ["TRANSPOSE_CONV", "MUL", "ADD"]
