# SPDX-License-Identifier: Apache-2.0
"""Choosing boxes by their scores.

Source: TFLite non_max_suppression, reference/non_max_suppression.h, detection_postprocess.  Of equal
scores the first box is chosen; LiteRT's NON_MAX_SUPPRESSION chooses whichever its heap has on top.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError, ShapeError
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.op import Op, operand
from circlekit.ir.resource_limits import need_memory
from circlekit.ir.value import Array, TensorType, Value
from circlekit.ops.checks import require_rank
from circlekit.ops.constant_operands import static_int
from circlekit.ops.program.flexbuffer import options_of
from circlekit.ops.quantization import scale_of, zero_point_of


def overlaps(boxes: Array, index: int) -> Array:
    """Intersection over union of box ``index`` and all ``boxes`` [n, 4] (y, x, y, x, any two corners)."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    area = np.prod(high - low, axis=1)
    sides = np.minimum(high, high[index]) - np.maximum(low, low[index])
    common = np.prod(np.maximum(sides, 0), axis=1)
    both = area + area[index] - common
    return np.where((area <= 0) | (area[index] <= 0), 0, common / np.where(both == 0, 1, both))


def suppress(
    boxes: Array, scores: Array, most: int, overlap: float, least: float, sigma: float
) -> tuple[Array, Array]:
    """Indices and scores of at most ``most`` boxes, best first.

    Each chosen box removes those that overlap it by ``overlap`` or more and, with ``sigma``, lowers the
    scores of the others; what has ``least`` or less goes.  A box without area does not remove itself, so
    it is chosen again and again, as in LiteRT.
    """
    alive = np.nonzero(scores > least)[0]
    current, boxes = scores[alive].astype(np.float32), boxes[alive]
    limit = min(len(alive), most)
    chosen: list[int] = []
    worth: list[float] = []
    scale = np.float32(-0.5 / sigma) if sigma > 0 else np.float32(0)
    while len(chosen) < limit and len(alive):
        best = int(np.argmax(current))
        chosen.append(int(alive[best]))
        worth.append(float(current[best]))
        shares = overlaps(boxes, best).astype(np.float32)
        if sigma > 0:
            current = current * np.exp(scale * shares * shares)
        kept = (shares < np.float32(overlap)) & (current > least)
        alive, current, boxes = alive[kept], current[kept], boxes[kept]
    return np.array(chosen, np.int32), np.array(worth, np.float32)


def padded(array: Array, size: int) -> Array:
    out = np.zeros(size, array.dtype)
    out[: len(array)] = array
    return out


class NonMaxSuppressionV4(Op, code="NON_MAX_SUPPRESSION_V4", results=("selected_indices", "selected_count")):
    """The best boxes that do not overlap too much: i32[max_output_size] with zeros at its end, and how many.

    ``boxes``: f32[n, 4], two corners each (y, x, y, x); ``scores``: f32[n]; the others are scalars.
    """

    boxes = operand(f32)
    scores = operand(f32)
    max_output_size = operand(i32)
    iou_threshold = operand(f32)
    score_threshold = operand(f32)

    def size(self) -> int | None:
        require_rank(self.boxes, "boxes", 2)
        require_rank(self.scores, "scores", 1)
        return static_int(self.max_output_size, "max_output_size")

    def infer(self) -> tuple[TensorType, ...]:
        return TensorType(i32, (self.size(),)), TensorType(i32, ())

    def selected(self, *args: Array) -> tuple[Array, Array, int]:
        boxes, scores, most, overlap, least = args[:5]
        sigma = float(args[5].reshape(-1)[0]) if len(args) > 5 else 0.0
        count, single = (
            int(most.reshape(-1)[0]),
            [a.astype(np.float32).reshape(-1)[0] for a in (overlap, least)],
        )
        if count < 0 or sigma < 0:
            raise ModelError(f"{self.code}: max_output_size is {count}, sigma {sigma}; 0 or more is wanted")
        return *suppress(boxes, scores, count, single[0], single[1], sigma), count

    def kernel(self, *args: Any) -> tuple[Array, ...]:
        indices, _, size = self.selected(*args)
        return padded(indices, size), np.array(len(indices), np.int32)


class NonMaxSuppressionV5(
    NonMaxSuppressionV4,
    code="NON_MAX_SUPPRESSION_V5",
    results=("selected_indices", "selected_scores", "selected_count"),
):
    """Like V4, with the scores too; with ``soft_nms_sigma`` above 0 an overlap lowers scores (soft NMS)."""

    soft_nms_sigma = operand(f32)

    def infer(self) -> tuple[TensorType, ...]:
        size = self.size()
        return TensorType(i32, (size,)), TensorType(f32, (size,)), TensorType(i32, ())

    def kernel(self, *args: Any) -> tuple[Array, ...]:
        indices, scores, size = self.selected(*args)
        return padded(indices, size), padded(scores, size), np.array(len(indices), np.int32)


# -- TFLite_Detection_PostProcess --------------------------------------------------------------


def real(value: Value | None, array: Array) -> Array:
    """Floats, or what uint8 numbers stand for."""
    if array.dtype == np.float32 or value is None:
        return array
    return np.asarray((array.astype(np.float32) - zero_point_of(value)) * scale_of(value))


def decoded(codes: Array, anchors: Array, options: dict[str, Any]) -> Array:
    """Corners [n, 4] of boxes coded as shifts and log sizes against ``anchors`` (y, x, h, w)."""
    codes, anchors = codes[:, :4].astype(np.float64), anchors.astype(np.float64)
    scales = np.array([options[f"{name}_scale"] for name in "yxhw"], np.float32).astype(np.float64)
    centre = (codes[:, :2] / scales[:2] * anchors[:, 2:] + anchors[:, :2]).astype(np.float32)
    half = (0.5 * np.exp(codes[:, 2:] / scales[2:]) * anchors[:, 2:]).astype(np.float32)
    return np.concatenate([centre - half, centre + half], axis=1)


def one_class(boxes: Array, scores: Array, most: int, options: dict[str, Any]) -> Array:
    """Indices of the best boxes that do not overlap by more than the threshold, best first."""
    overlap = np.float32(options["nms_iou_threshold"])
    alive = np.nonzero(scores >= np.float32(options["nms_score_threshold"]))[0]
    alive = alive[np.argsort(-scores[alive], kind="stable")]
    chosen: list[int] = []
    while len(chosen) < most and len(alive):
        chosen.append(int(alive[0]))
        alive = alive[1:][overlaps(boxes[alive], 0)[1:] <= overlap]
    return np.array(chosen, np.int64)


_WANTED: dict[str, type] = {
    **dict.fromkeys(("y_scale", "x_scale", "h_scale", "w_scale"), float),
    **dict.fromkeys(("nms_iou_threshold", "nms_score_threshold"), float),
    **dict.fromkeys(("num_classes", "max_detections", "max_classes_per_detection"), int),
}


def detection_postprocess(op: Op, *args: Array) -> list[Array]:
    """TFLite_Detection_PostProcess: boxes, classes and scores of the best detections, and their number.

    Operands: box codes [1, n, 4 or more], class scores [1, n, classes, or one more for the background],
    anchors [n, 4]; floats or uint8.  Unused rows are zeros.
    """
    options = options_of(op, **_WANTED)
    codes, predictions, anchors = (real(v, a) for v, a in zip(op.inputs, args, strict=True))
    if codes.ndim != 3 or predictions.ndim != 3 or codes.shape[0] != 1 or codes.shape[1] != len(anchors):
        raise ShapeError(f"{len(anchors)} anchors do not fit box codes of shape {list(codes.shape)}")
    boxes = decoded(codes[0], anchors, options)
    if not 0 < options["nms_iou_threshold"] <= 1 or np.any(boxes[:, :2] > boxes[:, 2:]):
        raise ModelError("detections need an overlap between 0 and 1, and boxes of no negative size")
    scores = predictions[0][:, predictions.shape[2] - options["num_classes"] :]
    find = _by_class if options.get("use_regular_nms") else _by_box
    rows, classes, places, count = find(boxes, scores, options)
    size = options["max_detections"] * options["max_classes_per_detection"]
    need_memory(24 * size, f"room for {size} detections")
    out_boxes = np.zeros((1, size, 4), np.float32)
    out_classes, out_scores = (np.zeros((1, size), np.float32) for _ in range(2))
    out_boxes[0, places], out_classes[0, places] = boxes[rows], classes
    out_scores[0, places] = scores[rows, classes]
    return [out_boxes, out_classes, out_scores, np.array([count], np.float32)]


def _by_class(boxes: Array, scores: Array, options: dict[str, Any]) -> tuple[Array, Array, Array, int]:
    """Each class by itself; the best of all."""
    most = options["max_detections"]
    per_class = min(options.get("detections_per_class", 100), most)
    found = [one_class(boxes, scores[:, c], per_class, options) for c in range(scores.shape[1])]
    rows = np.concatenate(found)
    classes = np.repeat(np.arange(len(found)), [len(f) for f in found])
    best = np.argsort(-scores[rows, classes], kind="stable")[:most]
    return rows[best], classes[best], np.arange(len(best)), len(best)


def _by_box(boxes: Array, scores: Array, options: dict[str, Any]) -> tuple[Array, Array, Array, int]:
    """Boxes by their best class, each with its best classes."""
    slots = options["max_classes_per_detection"]
    count = min(slots, scores.shape[1])
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    chosen = one_class(boxes, scores.max(axis=1), options["max_detections"], options)
    places = np.arange(len(chosen))[:, None] * slots + np.arange(count)
    return np.repeat(chosen, count), order[chosen].reshape(-1), places.reshape(-1), len(chosen)
