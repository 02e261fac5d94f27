# SPDX-License-Identifier: Apache-2.0
"""The judgement of quantized models: metrics against numpy's, errors that operators add, findings."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import numpy as np
import pytest

from circlekit import Model, parse
from circlekit.equivalence.judgement.error_metrics import MIN_CLASSES, ErrorMetrics
from circlekit.equivalence.judgement.judge import (
    CSV_COLUMNS,
    Judge,
    Judgement,
    _layer_findings,
    is_quantized_form,
)
from circlekit.equivalence.judgement.layer_errors import LayerError
from circlekit.equivalence.layer_comparison import compare_models
from circlekit.equivalence.reference_runs import Records
from circlekit.equivalence.verify import Verifier
from circlekit.errors import ModelError, ShapeError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.resources.progress import watched
from circlekit.ir.value import Array
from tests.equivalence.work import Work

ROWS = "[[1.0, 0.5, 0.25, 0.1], [0.3, -0.7, 0.2, 0.9]]"
FLOAT = f"""
graph main(%x: f32[1,4]) -> %z {{
  %y = FullyConnected(%x, {ROWS}, [0.1, -0.2]) : f32[1,2]
  %z = Relu(%y) : f32[1,2]
}}
"""
X = np.array([[1.0, -0.5, 0.24, 0.9]], np.float32)


def judge(before: Model, after: Model, records: Records) -> Judgement:
    """Return the judgement of ``after``, the quantized form of ``before``, on ``records``."""
    judge = Judge(before, after, records)
    Verifier(before, records, pair=judge)
    return judge.judgement


def quantized(y_scale: float = 0.02, bias: str = "[500, -1000]") -> str:
    """FLOAT in int8 by hand: weights of scale 0.01, input of scale 0.02, outputs of ``y_scale``."""
    return f"""
graph main(%x: f32[1,4]) -> %z {{
  %w = const i8[2,4] quant(scale: 0.01) [[100, 50, 25, 10], [30, -70, 20, 90]]
  %b = const i32[2] quant(scale: 0.0002) {bias}
  %xq = Quantize(%x) : i8[1,4] quant(scale: 0.02)
  %y = FullyConnected(%xq, %w, %b) : i8[1,2] quant(scale: {y_scale})
  %zq = Relu(%y) : i8[1,2] quant(scale: {y_scale})
  %z = Dequantize(%zq) : f32[1,2]
}}
"""


def test_metrics_are_those_of_numpy() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 3, 20)), rng.normal(size=(2, 3, 20))
    metrics = ErrorMetrics()
    for left, right in zip(a, b, strict=True):
        metrics.add(left, right)
    assert metrics.sqnr == pytest.approx(10 * np.log10((a**2).sum() / ((a - b) ** 2).sum()))
    assert metrics.cosine == pytest.approx(np.vdot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))
    assert metrics.mse == pytest.approx(np.mean((a - b) ** 2))
    assert metrics.mae == pytest.approx(np.mean(np.abs(a - b)))
    assert metrics.deviation == pytest.approx(np.std(b - a))
    peaks = [np.abs(x - y).max() / np.ptp(x) for x, y in zip(a, b, strict=True)]
    assert metrics.mpeir == pytest.approx(np.mean(peaks))
    rows = zip(a.reshape(-1, 20), b.reshape(-1, 20), strict=True)
    shared = [len({*np.argsort(x)[-5:]} & {*np.argsort(y)[-5:]}) / 5 for x, y in rows]
    assert metrics.top(5) == pytest.approx(np.mean(shared))
    assert metrics.top(5) != metrics.top(1)


def test_metrics_of_special_arrays() -> None:
    exact = ErrorMetrics()
    exact.add(np.ones(3), np.ones(3))
    assert (exact.sqnr, exact.mpeir, exact.top(1)) == (math.inf, 1.0, None)
    metrics = ErrorMetrics()
    metrics.add(np.array([np.nan, 0.0]), np.array([1.0, 0.5]))
    assert (metrics.skipped, metrics.lost, metrics.sqnr, metrics.mse) == (1, 0, None, 0.25)
    metrics.add(np.array([np.inf, 0.0]), np.array([np.inf, np.nan]))
    assert (metrics.skipped, metrics.lost) == (3, 1)
    single = ErrorMetrics()
    single.add(np.array([3.0]), np.array([1.0]))
    assert (single.mse, single.mae, single.mean_error) == (4.0, 2.0, -2.0)
    empty = ErrorMetrics()
    assert np.isnan([empty.mse, empty.mae, empty.mean_error, empty.deviation]).all()
    enormous = ErrorMetrics()  # the square of 1e200 is not a finite float64
    enormous.add(np.ones(1), np.array([1e200]))
    assert enormous.sqnr == -math.inf
    for share, sqnr, deviation in ((1.0, math.inf, 0.0), (1.5, -math.inf, math.inf)):
        enormous = ErrorMetrics()
        enormous.add(np.array([1e200, 2e200]), share * np.array([1e200, 2e200]))
        assert (enormous.cosine, enormous.sqnr, enormous.deviation) == (None, sqnr, deviation)
    with pytest.raises(ShapeError, match=r"expected a result of shape \[2\], got \[3\]"):
        metrics.add(np.zeros(2), np.zeros(3))


@pytest.mark.parametrize("count", [2, MIN_CLASSES])
def test_strings_are_skipped_and_complex_numbers_are_two_elements(count: int) -> None:
    metrics, numbers = ErrorMetrics(), np.arange(1, count + 1) * (1 + 2j)
    strings = np.array(["a"] * count, object)
    metrics.add(strings, strings)
    assert (metrics.count, metrics.skipped, metrics.sqnr) == (0, count, None)
    metrics.add(numbers, numbers - 1j)
    assert (metrics.count, metrics.mse, metrics.worst) == (2 * count, 0.5, 1.0)
    assert metrics.sqnr == pytest.approx(10 * np.log10((abs(numbers) ** 2).sum() / count))
    assert metrics.top(1) is None


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_])
def test_the_largest_elements_of_a_dtype_without_negative_numbers(dtype: type) -> None:
    metrics = ErrorMetrics()
    numbers: Array = np.zeros(MIN_CLASSES, dtype)
    numbers[3] = 1
    other = numbers[::-1]
    metrics.add(numbers, numbers)
    metrics.add(numbers, other)
    assert metrics.overlaps[1] == [1.0, 0.0]


def test_outputs_that_are_inputs_or_constants_are_judged() -> None:
    wanted, constant = "[1.0, 2.0]", "i8[2] quant(scale: 0.5) [2, 3]"
    before = parse(f"graph main(%x: f32[2]) -> %x, %c {{\n%c = const f32[2] {wanted}\n}}")
    after = parse(f"graph main(%x: f32[2]) -> %x, %c {{\n%c = const {constant}\n}}")
    outputs = judge(before, after, {"given": [np.ones(2, np.float32)]}).outputs
    assert {name: metrics.sqnr for name, metrics in outputs.items()} == {
        "x": math.inf,
        "c": pytest.approx(10 * np.log10(5 / 0.25)),
    }


def test_a_layer_on_an_integer_input_adds_its_error() -> None:
    """%y adds the same error, whether it reads the result of QUANTIZE or an integer input of the model."""
    text = quantized(y_scale=0.1).replace("  %xq = Quantize(%x) : i8[1,4] quant(scale: 0.02)\n", "")
    text = text.replace("%x: f32[1,4]", "%x: i8[1,4] quant(scale: 0.02)").replace("%xq", "%x")
    first, second = (
        judge(parse(FLOAT), parse(other), {"given": [X]}).layers[0]
        for other in (quantized(y_scale=0.1), text)
    )
    assert second.added.mse == first.added.mse > 0


def test_the_added_error_of_an_operator_leaves_out_the_errors_of_its_operands() -> None:
    """A scale of 0.1 makes the error of %y.  %z has an error, too, but RELU adds none."""
    judgement = judge(parse(FLOAT), parse(quantized(y_scale=0.1)), {"given": [X]})
    y, z = judgement.layers
    exact = X @ np.array([[1.0, 0.5, 0.25, 0.1], [0.3, -0.7, 0.2, 0.9]], np.float32).T + [0.1, -0.2]
    steps = np.rint(exact / 0.1) * 0.1
    assert y.error.mse == pytest.approx(np.mean((steps - exact) ** 2), rel=1e-4)
    assert y.added.mse == pytest.approx(y.error.mse, rel=1e-4)
    assert z.error.mse > 0
    assert z.added.noise == pytest.approx(0, abs=1e-12)
    assert [layer.op.code for layer in judgement.by_added_error()] == ["FULLY_CONNECTED", "RELU"]
    assert judgement.outputs["z"].sqnr == judgement.sqnr == z.error.sqnr
    assert judgement.findings == []


def test_a_comparison_runs_each_model_once_on_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []
    original = Interpreter.run

    def run(self: Interpreter, *args: Any, **options: Any) -> Any:
        ran.append(self.model)
        return original(self, *args, **options)

    monkeypatch.setattr(Interpreter, "run", run)
    before, after, records = parse(FLOAT), parse(quantized()), {"first": [X], "second": [2 * X]}
    judging = Judge(before, after, records, with_layers=True)
    comparison = compare_models(Verifier(before, records, pair=judging), after)
    assert [ran.count(before), ran.count(after)] == [2, 2]
    assert len(comparison.outputs) == 2
    assert [(o.name, o.inputs) for o in judging.layer_outcomes] == [("y", "first"), ("z", "first")]
    assert judging.judgement.outputs["z"].count == 4


def test_layers_as_csv() -> None:
    judgement = judge(parse(FLOAT), parse(quantized()), {"given": [X]})
    rows = list(csv.DictReader(io.StringIO(judgement.to_csv())))
    assert [row["tensor_name"] for row in rows] == ["y", "z"]
    assert set(rows[0]) == set(CSV_COLUMNS)
    assert float(rows[0]["scale"]) == pytest.approx(0.02)
    error = judgement.layers[0].error
    assert float(rows[0]["max_abs_error"]) == error.worst
    assert float(rows[0]["rmse/scale"]) == pytest.approx(math.sqrt(error.mse) / 0.02)
    assert float(rows[0]["added_share"]) == pytest.approx(error.mse / (error.signal / error.count), rel=1e-4)
    assert rows[0]["zero_point"] == "0"
    (row, _) = csv.DictReader(io.StringIO(judge(parse(FLOAT), parse(FLOAT), {"": [X]}).to_csv()))
    assert (row["scale"], row["zero_point"], row["rmse/scale"]) == ("", "", "")


def test_findings_name_place_and_remedy() -> None:
    clipped = judge(parse(FLOAT), parse(quantized(y_scale=0.005)), {"given": [X]})
    assert str(clipped.findings[0]) == (
        "%y of FULLY_CONNECTED: 100.00% of the elements are outside of the quantized range;"
        " calibrate on data like this, or use the range estimator min_max"
    )
    overflow = judge(parse(FLOAT), parse(quantized(bias="[2147483647, -1000]")), {"given": [X]})
    finding = overflow.findings[0]
    assert str(finding).startswith("bias %b of FULLY_CONNECTED: 1 of 2 elements overflow int32; ")
    assert "use int16x8" in finding.remedy
    records = {str(i): [X * i] for i in range(2)}
    dead = judge(parse(FLOAT), parse(quantized(y_scale=4.0)), records)
    reason = "2 channels that vary in the float model are constant"
    finding = next(f for f in dead.findings if reason in f.reason)
    assert finding.place == "%y of FULLY_CONNECTED"
    assert "equalize the channels" in finding.remedy


def test_models_that_cannot_be_judged() -> None:
    model = parse(FLOAT)
    with pytest.raises(ModelError, match="different inputs"):
        judge(model, parse(FLOAT.replace("%x", "%other")), {"given": [X]})


def test_a_quantized_form_has_a_quantized_tensor_that_was_float() -> None:
    model, form = parse(FLOAT), parse(quantized())
    assert is_quantized_form(model, form)
    assert not is_quantized_form(form, model)
    assert not is_quantized_form(form, parse(quantized(y_scale=0.1)))
    weights = "%w = const i8[2,4] quant(scale: 0.01) [[100, 50, 25, 10], [30, -70, 20, 90]]\n  %y = FullyConn"
    only_weights = FLOAT.replace("%y = FullyConn", weights).replace(ROWS, "%w").replace(", [0.1, -0.2])", ")")
    assert is_quantized_form(model, parse(only_weights))
    assert not is_quantized_form(parse(FLOAT.replace(", [0.1, -0.2])", ", none)")), model)


def test_channels_that_were_rescaled_are_no_error() -> None:
    """An equalized model: the second channel of %y is 8 times as large, and its reader takes that back."""
    layers = """
graph main(%x: f32[2,2]) -> %z {{
  %y = FullyConnected(%x, [[1.0, 0.5], [{a}, {b}]]) : f32[2,2]
  %z = FullyConnected(%y, [[1.0, {c}]]) : f32[2,1]
}}"""
    model = parse(layers.format(a=0.1, b=0.2, c=1.0))
    equalized = parse(layers.format(a=0.8, b=1.6, c=0.125))
    x = np.array([[1.0, 2.0], [-1.0, 0.5]], np.float32)
    y, z = judge(model, equalized, {"given": [x]}).layers
    assert y.error.noise == pytest.approx(0, abs=1e-10)
    assert z.added.noise == pytest.approx(0, abs=1e-10)
    wrong = parse(layers.format(a=-0.8, b=1.6, c=0.125))
    assert judge(model, wrong, {"given": [x]}).layers[0].error.noise > 0.1


def test_the_work_that_is_announced_is_done() -> None:
    with watched(Work()) as work:
        judge(parse(FLOAT), parse(quantized()), {"a": [X], "b": [X]})
    assert work.total > 0
    assert work.left == 0


INT16 = """
graph main(%x: f32[1,4]) -> %z {
  %w = const i8[2,4] quant(scale: 0.01) [[100, 50, 25, 10], [30, -70, 20, 90]]
  %b = const i64[2] quant(scale: 1e-6) [2147483647, -1000]
  %xq = Quantize(%x) : i16[1,4] quant(scale: 0.0001)
  %s = StridedSlice(%xq, [0, 0], [2147483647, 4], [1, 1]) : i16[1,4] quant(scale: 0.0001)
  %y = FullyConnected(%s, %w$bias) : i16[1,2] quant(scale: 0.1)
  %zq = Relu(%y) : i16[1,2] quant(scale: 0.1)
  %z = Dequantize(%zq) : f32[1,2]
}
"""


@pytest.mark.parametrize("bias", [", none", ", %b"])
def test_only_a_bias_of_int32_overflows(bias: str) -> None:
    """A bias of int64 or the end of a slice may be 2147483647; an absent bias has no elements."""
    findings = judge(parse(FLOAT), parse(INT16.replace("$bias", bias)), {"given": [X]}).findings
    assert not [f for f in findings if "overflow int32" in f.reason]


def test_without_records_only_the_normal_run_is_judged() -> None:
    model, form = parse(FLOAT), parse(quantized())
    judging = Judge(model, form, None)
    compare_models(Verifier(model, pair=judging), form)
    assert list(judging.outputs) == ["normal"]
    assert judging.layer_outcomes == []


@pytest.mark.parametrize(("second", "by_name"), [("z", True), ("w", False)])
def test_outputs_are_paired_by_name_if_all_names_agree(second: str, by_name: bool) -> None:
    text = "graph main(%x: f32[2]) -> %y, %z { %y = Neg(%x) %z = Abs(%x) }"
    swapped = "graph main(%x: f32[2]) -> %a, %b { %a = Abs(%x) %b = Neg(%x) }"
    after = swapped.replace("%a", f"%{second}").replace("%b", "%y")
    outputs = judge(parse(text), parse(after), {"given": [np.array([1, -2], np.float32)]}).outputs
    assert list(outputs) == ["y", "z"]
    assert (outputs["y"].worst == outputs["z"].worst == 0) is by_name


@pytest.mark.parametrize(("count", "clipped", "found"), [(1000, 1, 1), (1001, 1, 0), (1000, 0, 0)])
def test_clipping_of_a_thousandth_of_the_elements_is_reported(count: int, clipped: int, found: int) -> None:
    (op,) = parse("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }").main.ops
    layer = LayerError(op.output, op, ErrorMetrics(count=count), clipped_count=clipped)
    assert len(list(_layer_findings([layer]))) == found


def test_the_largest_elements_of_ten_classes_are_compared() -> None:
    for shape, compared in (((MIN_CLASSES,), True), ((2, MIN_CLASSES - 1), False), ((), False)):
        metrics = ErrorMetrics()
        metrics.add(np.ones(shape), np.ones(shape))
        assert (metrics.top(1) is not None) is compared
    empty = ErrorMetrics()
    empty.add(np.ones((0, MIN_CLASSES)), np.ones((0, MIN_CLASSES)))
    assert (empty.top(1), empty.count) == (None, 0)
