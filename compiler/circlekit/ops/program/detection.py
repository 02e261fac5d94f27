# SPDX-License-Identifier: Apache-2.0
"""Non-maximum suppression of boxes by their scores, and TFLite_Detection_PostProcess, which uses it.

Of several boxes with equal scores, the first is selected; LiteRT's NON_MAX_SUPPRESSION may select another.
Classes of one box that have equal scores keep their order; LiteRT may swap them without use_regular_nms.
Source: TFLite non_max_suppression, reference/non_max_suppression.h, detection_postprocess.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError, ShapeError, counted
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.op import Op, operand
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.value import Array, TensorType, Value, format_shape
from circlekit.ops.checks import require_dims
from circlekit.ops.constant_operands import static_int
from circlekit.ops.program.flexbuffer import options_of
from circlekit.ops.quantized_values import scale_of, zero_point_of


def intersection_over_union(boxes: Array, index: int) -> Array:
    """Return [n]: the intersection of the box at ``index`` with each of ``boxes``, divided by their union.

    ``boxes``: [n, 4], two corners each (y, x, y, x).  If one of the two boxes has no area, the result is 0.
    As in LiteRT, a NaN in the second corner stands for the number in the first.
    """
    first, second = boxes[:, :2], boxes[:, 2:]
    low, high = np.where(second < first, second, first), np.where(first < second, second, first)
    area = np.prod(high - low, axis=1)
    sides = np.minimum(high, high[index]) - np.maximum(low, low[index])
    intersection = np.prod(np.maximum(sides, 0), axis=1)
    union = area + area[index] - intersection
    has_area = ~((area <= 0) | (area[index] <= 0))
    return np.asarray(np.divide(intersection, union, out=np.zeros_like(intersection), where=has_area))


def suppress(
    boxes: Array, scores: Array, count: int, iou_threshold: float, score_threshold: float, sigma: float
) -> tuple[Array, Array]:
    """Return indices (int32) and scores (float32) of at most ``count`` selected boxes, the best first.

    ``boxes``: [n, 4], two corners each (y, x, y, x).  ``scores``: [n].  In each step, the box with the best
    score is selected.  Then each box, this one included, is removed if its intersection over union with this
    box is at least ``iou_threshold``.  If ``sigma`` > 0, this box also lowers the scores of the boxes that it
    overlaps (soft suppression).  Boxes with scores of at most ``score_threshold`` are removed.  The
    intersection over union of a box without area is 0, even with itself; that of boxes with NaN or infinite
    corners may be NaN.  If ``iou_threshold`` > 0, such boxes do not remove themselves, and may be selected
    several times, as in LiteRT.
    """
    candidates = np.nonzero(scores > score_threshold)[0]  # the indices of the boxes that are left
    current, boxes = scores[candidates].astype(np.float32), boxes[candidates]
    limit = min(len(candidates), count)
    selected: list[int] = []
    selected_scores: list[float] = []
    while len(selected) < limit and len(candidates):
        best = int(np.argmax(current))
        selected.append(int(candidates[best]))
        selected_scores.append(float(current[best]))
        iou = intersection_over_union(boxes, best).astype(np.float32)
        if sigma > 0:
            current = current * np.exp(np.float32(-0.5 / sigma) * iou * iou)
        remaining = ~(iou >= np.float32(iou_threshold)) & (current > score_threshold)  # NaN does not remove
        candidates, current, boxes = candidates[remaining], current[remaining], boxes[remaining]
    return np.array(selected, np.int32), np.array(selected_scores, np.float32)


class NonMaxSuppressionV4(Op, code="NON_MAX_SUPPRESSION_V4", results=("selected_indices", "selected_count")):
    """The indices of the selected boxes, i32[max_output_size] padded with 0, and the number of these boxes.

    ``boxes``: f32[n, 4], two corners each (y, x, y, x).  ``scores``: f32[n].  The other operands are scalars.
    """

    boxes = operand(f32)
    scores = operand(f32)
    max_output_size = operand(i32)
    iou_threshold = operand(f32)
    score_threshold = operand(f32)

    def infer(self) -> tuple[TensorType, ...]:
        scalars = [spec.name for spec in self.operands[2:]]
        require_dims(self, {"boxes": "boxes 4", "scores": "boxes", **dict.fromkeys(scalars, "")})
        size = static_int(self.max_output_size, "max_output_size")
        per_box = [TensorType(dtype, (size,)) for dtype in (i32, f32)]  # indices, and in V5 scores
        return *per_box[: len(self.result_names) - 1], TensorType(i32, ())

    def kernel(self, boxes: Array, scores: Array, *parameters: Array) -> tuple[Array, ...]:
        if scores.ndim != 1 or boxes.shape != (len(scores), 4):
            got = f"got {format_shape(boxes.shape)} and {format_shape(scores.shape)}"
            raise ShapeError(f"{self.code}: expected boxes of shape [n,4] and scores of shape [n], {got}")
        size, iou_threshold, score_threshold, *soft = (a.reshape(-1)[0] for a in parameters)
        sigma = soft[0] if soft else 0.0  # V5 has one more operand
        for name, number in (("max_output_size", size), ("soft_nms_sigma", sigma)):
            if number < 0:
                raise ModelError(f"{self.code}: expected {name} of 0 or more, got {number}")
        selected = suppress(boxes, scores, size, iou_threshold, score_threshold, sigma)  # indices, scores
        count = len(selected[0])
        padded = [np.pad(a, (0, size - count)) for a in selected[: len(self.result_names) - 1]]
        return *padded, np.array(count, np.int32)


class NonMaxSuppressionV5(
    NonMaxSuppressionV4,
    code="NON_MAX_SUPPRESSION_V5",
    results=("selected_indices", "selected_scores", "selected_count"),
):
    """Like NON_MAX_SUPPRESSION_V4, but the scores of the selected boxes are a result too.

    If ``soft_nms_sigma`` > 0, a selected box lowers the scores of the boxes that it overlaps.
    """

    soft_nms_sigma = operand(f32)


# -- TFLite_Detection_PostProcess --------------------------------------------------------------


def dequantized(value: Value | None, array: Array) -> Array:
    """Return ``array``, the elements of ``value``, as real numbers in float32."""
    if array.dtype == np.float32 or value is None:
        return array
    return np.asarray((array.astype(np.float32) - zero_point_of(value)) * scale_of(value))


def decoded_boxes(codes: Array, anchors: Array, options: dict[str, Any]) -> Array:
    """Return the corners (y, x, y, x) of boxes, [n, 4].

    ``anchors``: [n, 4], boxes as (y, x, height, width) with the center (y, x).  ``codes``: [n, 4 or more],
    (y, x, height, width) of the boxes relative to the anchors: the offset of the center divided by the size
    of the anchor, and the logarithm of the ratio of sizes.  Each is multiplied by a scale in ``options``.
    """
    codes, anchors = codes[:, :4].astype(np.float64), anchors.astype(np.float64)
    scales = np.array([options[f"{name}_scale"] for name in "yxhw"], np.float32).astype(np.float64)
    center = (codes[:, :2] / scales[:2] * anchors[:, 2:] + anchors[:, :2]).astype(np.float32)
    half = (0.5 * np.exp(codes[:, 2:] / scales[2:]) * anchors[:, 2:]).astype(np.float32)
    return np.concatenate([center - half, center + half], axis=1)


def suppress_class(boxes: Array, scores: Array, count: int, options: dict[str, Any]) -> Array:
    """Return the indices of the boxes that are selected by their scores for one class, the best first.

    There are at most ``count``.  Their scores are at least ``nms_score_threshold``.  The intersection over
    union of any two of them is at most ``nms_iou_threshold``, or NaN.  ``boxes``: [n, 4].  ``scores``: [n].
    """
    threshold = np.float32(options["nms_iou_threshold"])
    candidates = np.nonzero(scores >= np.float32(options["nms_score_threshold"]))[0]
    candidates = candidates[np.argsort(-scores[candidates], kind="stable")]
    selected: list[int] = []
    while len(selected) < count and len(candidates):
        selected.append(int(candidates[0]))
        candidates = candidates[1:][~(intersection_over_union(boxes[candidates], 0)[1:] > threshold)]
    return np.array(selected, np.int64)


_REQUIRED_OPTIONS: dict[str, type] = {
    **dict.fromkeys(("y_scale", "x_scale", "h_scale", "w_scale"), float),
    **dict.fromkeys(("nms_iou_threshold", "nms_score_threshold"), float),
    **dict.fromkeys(("num_classes", "max_detections", "max_classes_per_detection"), int),
}


def detection_postprocess(op: Op, *args: Array) -> list[Array]:
    """Return boxes [1, m, 4], classes [1, m] and scores [1, m] of the best detections, and a count [1].

    All are float32.  m is max_detections * max_classes_per_detection; unused rows are 0.  With
    use_regular_nms, a detection is a box with one class, and the count is the number of detections.  Without
    use_regular_nms, each selected box gives a detection for each of its best classes, and the count is the
    number of selected boxes.

    The operands are float32 or quantized: box codes [1, n, 4 or more] (see ``decoded_boxes``); scores
    [1, n, classes], or [1, n, 1 + classes] with the background first; anchors [n, 4].  Raise ModelError for
    invalid options or a box of negative size, ShapeError for shapes that do not fit, LimitError if m rows
    exceed the memory limit.
    """
    options = options_of(op, **_REQUIRED_OPTIONS)
    codes, predictions, anchors = (dequantized(v, a) for v, a in zip(op.inputs, args, strict=True))
    if anchors.ndim != 2 or anchors.shape[1] != 4:
        raise ShapeError(f"anchors: expected shape [n,4], got {list(anchors.shape)}")
    if codes.ndim != 3 or codes.shape[:2] != (1, len(anchors)) or codes.shape[2] < 4:
        expected = f"expected shape [1,{len(anchors)},4 or more]"
        raise ShapeError(f"box codes: {expected}, got {list(codes.shape)}")
    class_count, limit = options["num_classes"], options["max_detections"]
    per_box_limit = options["max_classes_per_detection"]
    sizes = [[*codes.shape[:2], class_count + background] for background in (0, 1)]
    if [*predictions.shape] not in sizes or class_count < 1:
        got = list(predictions.shape)
        raise ShapeError(f"scores: expected shape {sizes[0]} or {sizes[1]} of at least 1 class, got {got}")
    if limit < 0 or per_box_limit < 1:
        raise ModelError(
            "expected max_detections of at least 0 and max_classes_per_detection of at least 1, "
            f"got {limit} and {per_box_limit}"
        )
    boxes = decoded_boxes(codes[0], anchors, options)
    if not 0 < options["nms_iou_threshold"] <= 1:
        got = options["nms_iou_threshold"]
        raise ModelError(f"expected nms_iou_threshold above 0 and at most 1, got {got}")
    if np.any(boxes[:, :2] > boxes[:, 2:]):
        raise ModelError("expected boxes with heights and widths of 0 or more, got a negative one")
    scores = predictions[0][:, predictions.shape[2] - class_count :]  # without the background
    # for each detection: the index of its box (``chosen``), its class, and its position in the results
    if options.get("use_regular_nms"):  # suppression in each class, then the best boxes of all classes
        per_class = options.get("detections_per_class", 100)
        if not isinstance(per_class, int) or per_class < 1:
            raise ModelError(f"expected an integer of at least 1 as detections_per_class, got {per_class!r}")
        per_class = min(per_class, limit)
        by_class = [suppress_class(boxes, s, per_class, options) for s in scores.T]
        chosen, classes = np.concatenate(by_class), np.repeat(range(len(by_class)), list(map(len, by_class)))
        best = np.argsort(-scores[chosen, classes], kind="stable")[:limit]
        chosen, classes, count = chosen[best], classes[best], len(best)
        positions = np.arange(count)
    else:  # suppression by the best score of each box, then several classes for each box
        selected = suppress_class(boxes, scores.max(axis=1), limit, options)
        per_box = min(per_box_limit, scores.shape[1])
        chosen, count = np.repeat(selected, per_box), len(selected)
        classes = np.argsort(-scores, axis=1, kind="stable")[selected, :per_box].reshape(-1)
        positions = (np.arange(count)[:, None] * per_box_limit + np.arange(per_box)).reshape(-1)
    size = limit * per_box_limit
    need_memory(24 * size, counted(size, "detection"))  # six float32 numbers each
    out_boxes = np.zeros((1, size, 4), np.float32)
    out_classes, out_scores = (np.zeros((1, size), np.float32) for _ in range(2))
    out_boxes[0, positions], out_classes[0, positions] = boxes[chosen], classes
    out_scores[0, positions] = scores[chosen, classes]
    return [out_boxes, out_classes, out_scores, np.array([count], np.float32)]
