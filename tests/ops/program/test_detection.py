# SPDX-License-Identifier: Apache-2.0
"""Non-maximum suppression and TFLite_Detection_PostProcess against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from circlekit.errors import ModelError, ShapeError
from circlekit.interp import evaluate
from circlekit.ir.dtypes import f32
from circlekit.ir.op import OpaqueOp
from circlekit.ir.value import Array, Value
from circlekit.ops.program.detection import NonMaxSuppressionV4, NonMaxSuppressionV5
from circlekit.ops.program.flexbuffer import options_of
from tests.ops.litert import (
    FLOAT_TOLERANCE,
    assert_close,
    check,
    const,
    graph_of,
    kernel_results,
    run_litert,
    var,
)
from tests.ops.quantized import per_tensor


def boxes(seed: int, count: int, spread: float = 3.0) -> Array:
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, spread, (count, 2))
    other = corner + rng.uniform(0.2, 1.5, (count, 2))
    out = np.concatenate([corner, other], axis=1)
    swapped = rng.uniform(size=count) < 0.3
    out[swapped] = out[swapped][:, [2, 3, 0, 1]]  # the corners in the other order
    return out.astype(np.float32)


def scores(seed: int, count: int) -> Array:
    return np.random.default_rng(seed).permutation(np.linspace(0.01, 0.99, count)).astype(np.float32)


def single(number: float) -> Value:
    return const(number, np.float32)


@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("least", [0.0, 0.5])
@pytest.mark.parametrize("most", [0, 3, 60])
def test_v4_selects_the_boxes_of_litert(overlap: float, least: float, most: int) -> None:
    b, s = boxes(1, 40), scores(2, 40)
    check(NonMaxSuppressionV4(var(b), var(s), const(most, np.int32), single(overlap), single(least)), b, s)


@pytest.mark.parametrize("sigma", [0.0, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("overlap", [0.4, 1.0])
@pytest.mark.parametrize("least", [0.0, 0.3])
def test_v5_selects_the_boxes_of_litert(sigma: float, overlap: float, least: float) -> None:
    b, s = boxes(3, 40), scores(4, 40)
    size = const(25, np.int32)
    check(NonMaxSuppressionV5(var(b), var(s), size, single(overlap), single(least), single(sigma)), b, s)


def test_a_score_of_the_threshold_is_too_low() -> None:
    b, s = boxes(1, 40), scores(2, 40)
    threshold = single(float(np.sort(s)[20]))
    op = NonMaxSuppressionV4(var(b), var(s), const(60, np.int32), single(1.0), threshold)
    assert check(op, b, s)[1] == 19  # of 40 scores, those above the one at place 20


def test_a_box_without_area_is_selected_again() -> None:
    """Its intersection with itself is 0, so it does not suppress itself."""
    b, s = boxes(1, 6), scores(2, 6)
    b[np.argmax(s), 2:] = b[np.argmax(s), :2]
    op = NonMaxSuppressionV4(var(b), var(s), const(4, np.int32), single(0.5), single(0.0))
    assert check(op, b, s)[0].tolist() == [np.argmax(s)] * 4


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("overlap", [0.0, 0.5, np.nan])
def test_nan_does_not_suppress(column: int, number: float, overlap: float) -> None:
    b, s = boxes(1, 6), scores(2, 6)
    b[np.argmax(s), column] = number
    check(NonMaxSuppressionV4(var(b), var(s), const(9, np.int32), single(overlap), single(0.0)), b, s)


def test_the_size_of_the_result_is_an_operand() -> None:
    b, s, most = boxes(1, 6), scores(2, 6), np.array(9, np.int32)
    op = NonMaxSuppressionV4(var(b), var(s), var(most), single(0.5), single(0.0))
    assert op.output.shape == (None,)
    check(op, b, s, most)
    with pytest.raises(ModelError, match="expected max_output_size of 0 or more, got -1"):
        kernel_results(op, [b, s, np.array(-1, np.int32)])


# -- TFLite_Detection_PostProcess --------------------------------------------------------------

OPTIONS: dict[str, Any] = {
    "max_detections": 8, "max_classes_per_detection": 1, "detections_per_class": 5,
    "nms_score_threshold": 0.2, "nms_iou_threshold": 0.5, "num_classes": 4,
    "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip


def detector(values: list[Value], **changes: Any) -> OpaqueOp:
    options = {k: v for k, v in {**OPTIONS, **changes}.items() if v is not None}
    size = options["max_detections"] * options["max_classes_per_detection"]
    shapes = [(1, size, 4), (1, size), (1, size), (1,)]
    results = [Value(f"out{i}", f32, shape) for i, shape in enumerate(shapes)]
    op = OpaqueOp(*values, code="CUSTOM", results=results, custom_code="TFLite_Detection_PostProcess")
    op.extra["custom_options"] = np.frombuffer(bytes(flexbuffers.Dumps(options)), np.uint8)
    return op


def scene(seed: int, count: int = 30, classes: int = 5) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    codes = rng.normal(0, 2, (1, count, 4))
    likely = rng.permutation(np.linspace(0.001, 0.999, count * classes)).reshape(1, count, classes)
    anchors = np.concatenate([rng.uniform(0, 1, (count, 2)), rng.uniform(0.1, 0.5, (count, 2))], axis=1)
    return tuple(a.astype(np.float32) for a in (codes, likely, anchors))  # type: ignore[return-value]


def check_detector(op: OpaqueOp, *inputs: Array) -> None:
    wanted = run_litert(graph_of(op), inputs)
    got = evaluate(op, [*inputs, *(v.array() for v in op.inputs[len(inputs) :] if v is not None)])
    slots = 1 if options_of(op).get("use_regular_nms") else got[1].shape[1] // OPTIONS["max_detections"]
    rows = int(wanted[3][0]) * slots  # LiteRT does not write the rows after these
    for ours, theirs in zip(got[:3], wanted[:3], strict=True):
        assert ours.shape == theirs.shape
        assert_close(ours[:, :rows], theirs[:, :rows], FLOAT_TOLERANCE)
    assert_close(got[3], wanted[3])


@pytest.mark.parametrize("regular", [False, True, None])
@pytest.mark.parametrize("classes", [4, 5])
@pytest.mark.parametrize("per_box", [1, 3])
@pytest.mark.parametrize("threshold", [0.2, 0.9])
def test_detections(regular: bool | None, classes: int, per_box: int, threshold: float) -> None:
    codes, likely, anchors = scene(5, classes=classes)
    op = detector(
        [var(codes), var(likely), const(anchors)], use_regular_nms=regular, nms_score_threshold=threshold,
        max_classes_per_detection=per_box,
    )  # fmt: skip
    check_detector(op, codes, likely)


@pytest.mark.parametrize("regular", [False, True])
def test_detections_of_boxes_with_nan(regular: bool) -> None:
    codes, likely, anchors = scene(5)
    codes[0, np.argmax(likely[0].max(axis=1)), 0] = np.nan
    changes = {"use_regular_nms": regular, "nms_iou_threshold": 0.01}
    check_detector(detector([var(codes), var(likely), const(anchors)], **changes), codes, likely)


def test_detections_of_quantized_data() -> None:
    rng = np.random.default_rng(6)
    codes, likely, anchors = (
        rng.integers(0, 256, shape).astype(np.uint8) for shape in ((1, 30, 4), (1, 30, 5), (30, 4))
    )
    anchors[:, 2:] = np.maximum(anchors[:, 2:], 20)
    values = [var(codes), var(likely), const(anchors)]
    for value, scale, zero in zip(values, (0.05, 1 / 256, 1 / 256), (128, 0, 0), strict=True):
        value.quantization = per_tensor(scale, zero)
    likely[:] = np.argsort(rng.uniform(size=150)).reshape(1, 30, 5)  # no two scores are equal
    check_detector(detector(values, use_regular_nms=True), codes, likely)


def test_there_must_be_as_many_anchors_as_boxes() -> None:
    codes, likely, anchors = scene(5)
    op = detector([var(codes), var(likely), const(anchors[:7])])
    with pytest.raises(ModelError, match=r"box codes: expected shape \[1,7,4 or more\], got \[1, 30, 4\]"):
        evaluate(op, [codes, likely, anchors[:7]])


def test_operands_of_wrong_rank_or_batch_are_refused() -> None:
    codes, likely, anchors = scene(5)
    for wrong in ([codes[0], likely], [codes, likely[0]], [np.repeat(codes, 2, axis=0), likely]):
        op = detector([*map(var, wrong), const(anchors)])
        with pytest.raises(ModelError, match=r"(box codes|scores): expected shape"):
            evaluate(op, [*wrong, anchors])


@pytest.mark.parametrize("threshold", [0.0, 1.01])
def test_the_threshold_of_overlaps_is_a_fraction(threshold: float) -> None:
    codes, likely, anchors = scene(5)
    op = detector([var(codes), var(likely), const(anchors)], nms_iou_threshold=threshold)
    with pytest.raises(ModelError, match="expected nms_iou_threshold above 0 and at most 1, got"):
        evaluate(op, [codes, likely, anchors])


def test_boxes_of_negative_size_are_refused() -> None:
    codes, likely, anchors = scene(5)
    for axis in (2, 3):
        wrong = anchors.copy()
        wrong[3, axis] = -0.1
        op = detector([var(codes), var(likely), const(wrong)])
        with pytest.raises(ModelError, match="expected boxes with heights and widths of 0 or more"):
            evaluate(op, [codes, likely, wrong])
    op = detector([var(codes), var(likely), const(anchors)], nms_iou_threshold=1.0)
    anchors[3, 2:] = 0
    evaluate(op, [codes, likely, anchors])  # a box without area and the largest threshold are valid


def test_up_to_100_detections_per_class() -> None:
    """The limit is 100 if the option detections_per_class is absent."""
    codes = np.zeros((1, 120, 4), np.float32)
    anchors = np.array([[i * 2, 0, 1, 1] for i in range(120)], np.float32)  # without overlaps
    likely = np.linspace(0.5, 0.9, 120, dtype=np.float32).reshape(1, 120, 1)
    for limit, wanted in ((99, 99), (110, 100)):
        changes = {"num_classes": 1, "max_detections": limit, "detections_per_class": None}
        op = detector([var(codes), var(likely), const(anchors)], use_regular_nms=True, **changes)
        assert evaluate(op, [codes, likely, anchors])[3] == wanted


def test_boxes_that_overlap_as_much_as_allowed_stay() -> None:
    codes, anchors = np.zeros((1, 4, 4), np.float32), np.array([[0, 0, 1, 1]] * 4, np.float32)
    likely = np.array([0.9, 0.8, 0.7, 0.6], np.float32).reshape(1, 4, 1)
    changes = {"num_classes": 1, "nms_iou_threshold": 1.0}
    op = detector([var(codes), var(likely), const(anchors)], use_regular_nms=True, **changes)
    check_detector(op, codes, likely)
    assert evaluate(op, [codes, likely, anchors])[3] == 4


def test_detections_ask_for_the_memory_of_their_results(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, likely, anchors = scene(5)
    sizes: list[int] = []
    monkeypatch.setattr("circlekit.ops.program.detection.need_memory", lambda size, what: sizes.append(size))
    op = detector([var(codes), var(likely), const(anchors)], max_classes_per_detection=2)
    out = evaluate(op, [codes, likely, anchors])
    assert sizes == [sum(a.nbytes for a in out[:3])]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"y_scale": None}, "option y_scale: expected float, got None"),
        ({"nms_iou_threshold": "1"}, "option nms_iou_threshold: expected float, got '1'"),
        ({"num_classes": 1.5}, "option num_classes: expected int, got 1.5"),
    ],
)
def test_options_that_are_missing_or_of_wrong_type_are_refused(change: dict[str, Any], sentence: str) -> None:
    codes, likely, anchors = scene(5)
    op = detector([var(codes), var(likely), const(anchors)], **change)
    with pytest.raises(ModelError, match=sentence):
        evaluate(op, [codes, likely, anchors])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"num_classes": 9}, r"scores: expected shape \[1, 30, 9\] or \[1, 30, 10\]"),
        ({"num_classes": 6}, "scores: expected shape"),
        ({"num_classes": 3}, "scores: expected shape"),
        ({"num_classes": -1}, "scores: expected shape"),
        ({"max_detections": -1}, "got -1 and 1"),
        ({"max_classes_per_detection": -1}, "got 8 and -1"),
        ({"max_classes_per_detection": 0}, "got 8 and 0"),
        ({"use_regular_nms": True, "detections_per_class": 0}, "at least 1 as detections_per_class, got 0"),
        ({"use_regular_nms": True, "detections_per_class": "x"}, "as detections_per_class, got 'x'"),
    ],
)
def test_options_that_litert_refuses(change: dict[str, Any], sentence: str) -> None:
    codes, likely, anchors = scene(5)
    op = detector([var(codes), var(likely), const(anchors)], **change)
    with pytest.raises(ModelError, match=sentence):
        evaluate(op, [codes, likely, anchors])
    for value in op.results:
        value.shape = (1,)
    with pytest.raises(RuntimeError, match="failed to invoke"):
        run_litert(graph_of(op), [codes, likely])


@pytest.mark.parametrize(("count", "columns"), [(30, 1), (30, 0), (29, 5)])
def test_scores_of_other_classes_or_boxes_are_refused(count: int, columns: int) -> None:
    """LiteRT is not run, because it crashes on scores without classes."""
    codes, _, anchors = scene(5)
    likely = np.zeros((1, count, columns), np.float32)
    op = detector([var(codes), var(likely), const(anchors)], num_classes=4 if columns else 0)
    with pytest.raises(ShapeError, match="scores: expected shape"):
        evaluate(op, [codes, likely, anchors])


@pytest.mark.parametrize("columns", [3, 1])
def test_boxes_have_four_numbers(columns: int) -> None:
    codes, likely, anchors = scene(5)
    op = detector([var(codes[..., :columns]), var(likely), const(anchors)])
    with pytest.raises(ShapeError, match=rf"expected shape \[1,30,4 or more\], got \[1, 30, {columns}\]"):
        evaluate(op, [codes[..., :columns], likely, anchors])
    with pytest.raises(RuntimeError):
        run_litert(graph_of(op), [codes[..., :columns], likely])
    op = detector([var(codes), var(likely), const(anchors[:, :columns])])
    with pytest.raises(ShapeError, match=rf"anchors: expected shape \[n,4\], got \[30, {columns}\]"):
        evaluate(op, [codes, likely, anchors[:, :columns]])


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        (((6, 4), (5,)), r"expected scores of shape \[6\], got \[5\]"),
        (((6, 3), (6,)), r"expected boxes of shape \[6,4\], got \[6,3\]"),
    ],
)
def test_boxes_and_scores_fit_together(shapes: tuple[tuple[int, ...], ...], sentence: str) -> None:
    values = [var(np.zeros(shape, np.float32)) for shape in shapes]
    with pytest.raises(ShapeError, match=sentence):
        NonMaxSuppressionV4(*values, const(4, np.int32), single(0.5), single(0.0))


def test_types_of_selected_boxes() -> None:
    b, s, size = var(boxes(1, 6)), var(scores(2, 6)), const(4, np.int32)
    thresholds = [single(0.5), single(0.0)]
    v4 = NonMaxSuppressionV4(b, s, size, *thresholds)
    assert [str(v.type) for v in v4.results] == ["i32[4]", "i32[]"]
    v5 = NonMaxSuppressionV5(b, s, size, *thresholds, single(0.0))
    assert [str(v.type) for v in v5.results] == ["i32[4]", "f32[4]", "i32[]"]
    for wrong in ((s, s), (b, b)):
        with pytest.raises(ShapeError, match=r"expected (boxes|scores) of shape"):
            NonMaxSuppressionV4(*wrong, size, *thresholds)


def test_a_negative_sigma_is_refused() -> None:
    b, s, size = var(boxes(1, 6)), var(scores(2, 6)), const(4, np.int32)
    sigma = var(np.array(0, np.float32))
    v5 = NonMaxSuppressionV5(b, s, size, single(0.5), single(0.0), sigma)
    with pytest.raises(ModelError, match=r"expected soft_nms_sigma of 0 or more, got -1\.0"):
        kernel_results(v5, [boxes(1, 6), scores(2, 6), np.array(-1, np.float32)])
