# SPDX-License-Identifier: Apache-2.0
"""Parts of models that often lose much precision: which are found, and when they are raised."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.quant.mixed import mixed_precision
from circlekit.quant.mixed.mixed_precision import MIN_PATTERN_GAIN, MIN_SQNR, raise_patterns
from circlekit.quant.mixed.patterns import find_patterns
from circlekit.quant.quantize import plan_model, ranges_of
from tests.quant.mixed.example_models import SAMPLES, random_samples, spectrogram


@pytest.mark.parametrize(
    ("name", "body", "raised"),
    [
        ("spectrogram front", "%s = Square(%x)\n%p = Sum(%s, [1])\n%l = Sqrt(%p)", "spl"),
        ("spectrogram front", "%s = Mul(%x, %x)\n%p = Sum(%s, [1])", "sp"),
        ("spectrogram front", "%a = Square(%x)\n%n = Neg(%x)\n%b = Square(%n)\n%p = Add(%a, %b)", "anbp"),
        ("spectrogram front", "%a = Mul(%x, %x)\n%n = Neg(%x)\n%b = Mul(%n, %n)\n%p = Add(%a, %b)", "anbp"),
        ("spectrogram front", "%o = Neg(%x)\n%p = Log(%o)\n%w = FullyConnected(%p, $w)\n%q = Neg(%w)", "op"),
        ("variance of a layer norm", "%d = SquaredDifference(%x, 1.0)\n%v = Mean(%d, [1])", "dv"),
        ("variance of a layer norm", "%c = Sub(%x, 1.0)\n%d = Square(%c)\n%v = Mean(%d, [1])", "cdv"),
        ("variance of a layer norm", "%c = Sub(%x, 1.0)\n%d = Mul(%c, %c)\n%v = Mean(%d, [1])", "cdv"),
        ("variance of a layer norm", "%a = Neg(%x)\n%r = Rsqrt(%a)\n%b = Neg(%r)", "r"),
        ("softmax", "%e = Exp(%x)\n%s = Sum(%e, [1]) {keep_dims: true}\n%z = Div(%e, %s)", "esz"),
        ("softmax", "%a = Neg(%x)\n%z = Softmax(%a)\n%b = Neg(%z)", "z"),
    ],
)
def test_patterns_and_what_is_raised_with_them(name: str, body: str, raised: str) -> None:
    """``raised``: the names of the results of the raised operators.

    With a spectrogram front, the operators before it are raised, and those after it up to the next weights.
    """
    output = body.splitlines()[-1].split()[0]
    text = f"graph main(%x: f32[2,8]) -> {output} {{\n{body.replace('$w', str([[1.0] * 8]))}\n}}"
    found = find_patterns(circlekit.parse(text).main)
    assert [(n, sorted(op.output.name for op in ops)) for n, ops in found] == [(name, sorted(raised))]


def test_patterns_that_lose_much_are_raised_without_being_asked() -> None:
    model = spectrogram()
    assert [(name, len(ops)) for name, ops in find_patterns(model.main)] == [("spectrogram front", 4)]
    samples = random_samples(1, 64)
    ranges = ranges_of(model, circlekit.calibrate(model, samples))
    raised = raise_patterns(model, lambda o: plan_model(model, "int8", ranges, operators=o), samples)
    assert set(raised.schemes) == {"a", "p", "l"}  # SQUARE has no integer kernel
    assert raised.sqnr is not None
    assert raised.sqnr > 25
    assert "kept" in raised.notes[-1]


TWO_PATTERNS = """
graph main(%x: f32[2,8]) -> %m, %s {
  %r = Rsqrt(%x)
  %m = Mul(%r, %x)
  %s = Softmax(%x)
}"""


@pytest.mark.parametrize(
    ("measured", "kept", "last"),
    [
        ([MIN_SQNR[8]], "", 0),
        ([None], "", 0),
        ([2.0, 2.0 + MIN_PATTERN_GAIN, 2.0 + 2 * MIN_PATTERN_GAIN], "rs", 2),
        ([2.0, 2.0 + MIN_PATTERN_GAIN, 1.9 + 2 * MIN_PATTERN_GAIN], "r", 1),
        ([2.0, 1.9 + MIN_PATTERN_GAIN, 2.0 + MIN_PATTERN_GAIN], "s", 2),
        ([2.0, None, 1.9 + MIN_PATTERN_GAIN], "", 0),
    ],
)
def test_a_pattern_is_raised_if_it_gains_enough(
    measured: list[float | None], kept: str, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pattern must gain MIN_PATTERN_GAIN over the patterns that were kept before it.

    ``measured``: the SQNR without patterns, then with each pattern that is tried: Rsqrt (%r), Softmax (%s).
    ``kept``: the raised operators.  ``last``: the index of their SQNR in ``measured``.
    """
    model = circlekit.parse(TWO_PATTERNS)
    samples = [[np.full((2, 8), 2.0, np.float32)]]
    ranges = ranges_of(model, circlekit.calibrate(model, samples))
    results = iter(measured)
    monkeypatch.setattr(mixed_precision, "measured_sqnr", lambda *_: next(results))
    raised = raise_patterns(model, lambda o: plan_model(model, "int8", ranges, operators=o), samples)
    assert "".join(sorted(raised.schemes)) == kept
    assert raised.sqnr == measured[last]
    assert next(results, "none is left") == "none is left"
    assert len([note for note in raised.notes if note.endswith("kept")]) == len(kept)


def test_patterns_without_quantized_operators_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_precision, "measured_sqnr", None)
    model = circlekit.parse(TWO_PATTERNS)
    raised = raise_patterns(model, lambda o: plan_model(model, "float16", [], operators=o), [])
    assert (raised.schemes, raised.sqnr, raised.notes) == ({}, None, [])


@pytest.mark.parametrize("samples", [[], [[np.zeros((4, 8), np.float32)]]], ids=["no samples", "zeros"])
def test_patterns_are_not_tried_if_no_error_can_be_measured(samples: list[list[np.ndarray]]) -> None:
    """The SQNR of an output of zeros has no meaning."""
    model = circlekit.parse(
        "graph main(%x: f32[4,8]) -> %y {\n  %s = Softmax(%x)\n  %z = Sub(%s, %s)\n  %y = Mul(%z, %x)\n}"
    )
    ranges = ranges_of(model, circlekit.calibrate(model, SAMPLES))
    raised = raise_patterns(model, lambda o: plan_model(model, "int8", ranges, operators=o), samples)
    assert not raised.schemes
    (note,) = raised.notes
    assert note.endswith("not tried: no sample gives an output with a finite number other than 0")


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "uint8"])
def test_patterns_are_not_tried_if_the_error_is_small(scheme: str) -> None:
    text = "graph main(%x: f32[4,8]) -> %y { %s = Softmax(%x)\n %y = Mul(%s, 2.0)\n }"
    model = circlekit.parse(text)
    ranges = ranges_of(model, circlekit.calibrate(model, SAMPLES))
    found = raise_patterns(model, lambda schemes: plan_model(model, scheme, ranges, schemes), SAMPLES)
    assert found.sqnr is not None
    assert found.sqnr > MIN_SQNR[16 if scheme == "int16x8" else 8]
    assert (found.schemes, found.notes) == ({}, [])
