# SPDX-License-Identifier: Apache-2.0
"""Find operators whose results LiteRT leaves, or may leave, undefined.

To compute such a result, LiteRT reads memory that is not set, or that belongs to another tensor, or it ends
the process.  An operator is hybrid if its activations are float and its weights are integers.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import f32, i8, i16, i32, i64, u8, u32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ops.arithmetic.bits import MatrixDiag, MatrixSetDiag
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.movement.resize_images import ResizeBilinear
from circlekit.ops.movement.shape import Transpose
from circlekit.ops.movement.slice import StridedSlice
from circlekit.ops.quantized_values import is_hybrid
from circlekit.ops.recurrent.bidirectional_lstm import BidirectionalSequenceLstm
from circlekit.ops.recurrent.lstm import Lstm, LstmLayer
from circlekit.ops.recurrent.lstm_rounded import INTERMEDIATES
from circlekit.ops.recurrent.rnn import BidirectionalSequenceRnn
from circlekit.ops.reduction.normalization import LogSoftmax, Softmax
from circlekit.targets.constraints import obstacles
from circlekit.targets.operator_form import form_of
from circlekit.targets.target import find_target

BIAS_TYPE = "quantized_bias_type"
"""The attribute of layers of int16 data by which LiteRT chooses the dtype in which it reads the bias."""

DIAGONAL_DTYPES = (f32, i8, i16, i32, i64, u8, u32)
"""The dtypes of MATRIX_DIAG and MATRIX_SET_DIAG; LiteRT reads and writes elements of all others as int32."""

LEAST_SOFTMAX_SCALE = 2.0**-26
"""The reference kernels of 8-bit SOFTMAX and LOG_SOFTMAX need a product of scale and beta above this number.

The beta of a LOG_SOFTMAX is 1.
"""


def undefined(model: Model) -> str | None:
    """Return why LiteRT leaves, or may leave, results of an operator of ``model`` undefined.

    The first such operator is described; None if there is none.  Some shapes or constants may be unknown, so
    that an operator cannot be judged.  Then its kind decides:

    - Results of these operators count as undefined: a STRIDED_SLICE with ``offset`` or ``new_axis_mask``, a
      hybrid DEPTHWISE_CONV_2D with an unknown number of channels, an ATAN2 if a rank or dimension is known
      for one operand only, a BIDIRECTIONAL_SEQUENCE_RNN if the width is known for one of its inputs only.
    - Results of these operators count as defined: a RESIZE_BILINEAR with unknown sizes, a TRANSPOSE or a
      hybrid BATCH_MATMUL of unknown rank, an ATAN2 if both operands have the same unknown dimensions or an
      unknown rank, any other STRIDED_SLICE with computed strides, a BIDIRECTIONAL_SEQUENCE_RNN if both widths
      are unknown.

    Raise ShapeError for a STRIDED_SLICE whose operands do not fit together.
    """
    return next((found for op in model.ops() if (found := _undefined(op)) is not None), None)


def _undefined(op: Op) -> str | None:
    """Return why results of ``op`` are, or may be, undefined, or None."""
    if isinstance(op, Transpose) and op.input.shape == ():
        return "expected an operand of rank 1 or more, got a scalar, of which LiteRT copies nothing"
    if isinstance(op, BatchMatMul) and op.x.dtype is f32 and op.y.dtype is i8 and len(op.y.shape or ()) > 4:
        return "LiteRT's hybrid BATCH_MATMUL of rank 5 or more reads sums of rows that it has not computed"
    if op.code == "ATAN2" and op.inputs[0].shape != op.inputs[1].shape:  # type: ignore[union-attr]
        return "expected operands of one shape: LiteRT does not broadcast, and reads beyond an operand"
    if isinstance(op, DepthwiseConv2D) and op.input.dtype is f32 and op.filter.dtype is i8:
        scale = op.filter.quantization.scale if op.filter.quantization else np.zeros(0)
        if (scale.size,) != (op.output.shape or ())[-1:]:
            return f"expected a scale for each channel of a hybrid filter, got {scale.size}"
    if isinstance(op, Conv2D | TransposeConv | FullyConnected):
        return _misread_bias(op)
    if isinstance(op, MatrixDiag | MatrixSetDiag) and op.input.dtype not in DIAGONAL_DTYPES:
        return f"LiteRT reads and writes the elements of {op.input.dtype.short} as int32"
    if isinstance(op, LstmLayer):
        return _undefined_lstm(op)
    if isinstance(op, BidirectionalSequenceRnn):
        return _undefined_rnn(op)
    if isinstance(op, Softmax | LogSoftmax) and op.input.dtype in (i8, u8):
        return _undefined_softmax(op)
    if isinstance(op, ResizeBilinear) and op.input.dtype in (i8, i16):
        return _undefined_resize(op)
    return _undefined_slice(op) if isinstance(op, StridedSlice) else None


def _misread_bias(op: Conv2D | TransposeConv | FullyConnected) -> str | None:
    """Return a sentence if LiteRT reads the bias of a layer of int16 data in another dtype, else None."""
    constraints = find_target("litert").operators[op.code]["forms"].get(form_of(op), {})
    types = {name: types for name, types in constraints.get("values", {}).items() if name == BIAS_TYPE}
    fault = next(obstacles(op, {"values": types}), None)
    return fault and f"expected {fault}: LiteRT reads the bias in another dtype"


def _undefined_lstm(op: LstmLayer) -> str | None:
    """Return a sentence if LiteRT reads wrong memory, or writes beyond the end of a state; else None."""
    is_basic = isinstance(op, Lstm) and op.is_basic
    if op.input.dtype is f32 and op.act is Activation.NONE and not is_basic:
        return "LiteRT's float LSTM without an activation reads scratch memory in place of the cell state"
    if isinstance(op, BidirectionalSequenceLstm) and op.merge_outputs and not op.time_major:
        return "LiteRT writes beyond the end of a state if the outputs are merged and not time-major"
    has_intermediates = len(op.extra.get("intermediates", ())) == INTERMEDIATES
    if isinstance(op, Lstm) and has_intermediates and op.projection_bias is None:
        return "LiteRT reads a bias of the projection, which this LSTM with 12 intermediates lacks"
    return None


def _undefined_rnn(op: BidirectionalSequenceRnn) -> str | None:
    """Return a sentence if LiteRT reads beyond an operand or a scratch tensor of ``op``, else None."""
    shapes = [() if v is None else (v.shape or ()) for v in (op.input, op.aux_input)]
    if op.aux_input is not None and shapes[0][-1:] != shapes[1][-1:]:
        return "LiteRT finds the steps of aux_input by the width of the input, which is another one"
    is_symmetric_hybrid = is_hybrid(op.input, op.fw_input_weights) and not op.asymmetric_quantize_inputs
    if is_symmetric_hybrid and op.time_major and op.merge_outputs:
        return "LiteRT reads zero points of the time-major input that it has not allocated"
    return None


def _undefined_softmax(op: Softmax | LogSoftmax) -> str | None:
    """Return a sentence if LiteRT's reference kernel ends the process on 8-bit data, else None."""
    quantization = op.input.quantization
    scale = float(quantization.scale.max(initial=0.0)) if quantization else 0.0
    product = scale * op.beta if isinstance(op, Softmax) else scale
    if product > LEAST_SOFTMAX_SCALE:
        return None
    return f"expected a scale times beta above 2^-26, got {product:g}; LiteRT's reference kernel aborts"


def _undefined_resize(op: ResizeBilinear) -> str | None:
    """Return a sentence if LiteRT reads beyond the last row or column of integer images, else None."""
    sizes = zip((op.input.shape or ())[1:3], (op.output.shape or ())[1:3], strict=False)
    for before, after in sizes:
        # positions are in units of 1/1024 pixel
        if before and after and op.fixed_positions(before, after).max() >= 1024 * before:
            return f"LiteRT rounds the scale from {before} to {after} pixels, and reads beyond the last pixel"
    return None


def _undefined_slice(op: StridedSlice) -> str | None:
    """Return why the result of ``op`` is, or may be, undefined; None if it is surely defined.

    If the attribute ``offset`` is set, ``end`` has sizes in place of ends.  LiteRT reads a size for each
    axis, and does not check that begin plus size is within the axis.
    """
    begin, end, strides = (static_int_vector(v) for v in (op.begin, op.end, op.strides))
    shape = op.input.shape
    count = next((len(x) for x in (begin, end, strides) if x is not None), 0)  # entries; 0 if unknown
    if op.new_axis_mask >> count:
        return f"new_axis_mask: expected no bit beyond the {count} known entries, got {op.new_axis_mask:#b}"
    if any(stride < 0 and op.shrink_axis_mask >> entry & 1 for entry, stride in enumerate(strides or ())):
        return "LiteRT reads other elements for an axis in shrink_axis_mask whose stride is negative"
    if not op.offset:
        return None
    if shape is None or begin is None or end is None or strides is None:
        unknown = "the rank, begin, end or strides are not known"
        return f"with offset, end holds sizes, which LiteRT does not check; here {unknown}"
    slices = op.axis_slices(begin, end, strides, len(shape))
    has_ellipsis = bool(op.ellipsis_mask & ((1 << count) - 1))  # an ellipsis is an entry, but not an axis
    if len(slices) > count - has_ellipsis:
        return "LiteRT reads a size for each axis: expected a size, got an axis without an entry in begin"
    for part, dim in zip((s for s in slices if s is not None), shape, strict=True):
        if part.shrink:
            continue
        if part.end is None:
            return "LiteRT reads a size for each axis: expected one, got an axis that is taken up to its end"
        if dim is None or part.stride <= 0:
            got = f"got {'?' if dim is None else dim} and {part.stride}"
            return f"LiteRT does not check sizes: expected a known dimension and a positive stride, {got}"
        first = slice(part.begin, None, part.stride).indices(dim)[0]
        if first + part.end > dim:
            return "LiteRT does not check sizes, and this size goes beyond the axis"
    return None
