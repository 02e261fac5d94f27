# SPDX-License-Identifier: Apache-2.0
"""Suggest an operator for an unknown name: one that is misspelt, or that another framework uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from circlekit.errors import SEARCH_LIMIT_CHARACTERS, did_you_mean, edit_distance

OTHER_NAMES = {
    "Abs": "absolute",
    "Add": "bias_add",
    "AddN": "AccumulateNV2",
    "AveragePool2D": "AvgPool AvgPool2d AveragePool AveragePooling2D",
    "BatchMatMul": "BatchMatMulV2 BatchMatMulV3 bmm",
    "BatchMatMul or FullyConnected": "MatMul dot dot_general",
    "BroadcastTo": "Expand expand_as",
    "Call": "PartitionedCall StatefulPartitionedCall",
    "Cast": "convert_element_type",
    "Concatenation": "Concat ConcatV2 cat Concatenate",
    "Conv3DTranspose": "ConvTranspose3d",
    "Conv2D": "Conv Convolution Conv1d conv_general_dilated",
    "Cumsum": "cumulative_sum",
    "DepthToSpace": "PixelShuffle",
    "DepthwiseConv2D": "DepthwiseConv2dNative DepthwiseConvolution",
    "Dequantize": "DequantizeLinear",
    "Div": "divide true_divide RealDiv",
    "EmbeddingLookup": "Embedding",
    "Equal": "eq",
    "FakeQuant": "FakeQuantWithMinMaxVars FakeQuantWithMinMaxArgs fake_quantize",
    "Fill": "full ones zeros ConstantOfShape",
    "FloorDiv": "floor_divide",
    "FloorMod": "Mod remainder fmod",
    "FullyConnected": "Linear Dense Gemm InnerProduct addmm mm",
    "Gather": "GatherV2 index_select take",
    "Greater": "gt",
    "GreaterEqual": "ge GreaterOrEqual",
    "HardSwish": "hard_silu hswish",
    "If": "cond StatelessIf",
    "InstanceNorm": "InstanceNormalization InstanceNorm2d",
    "L2Normalization": "L2Normalize LpNormalization normalize",
    "Less": "lt",
    "LessEqual": "le LessOrEqual",
    "LocalResponseNormalization": "LRN LocalResponseNorm",
    "LogicalAnd": "And",
    "LogicalNot": "Not",
    "LogicalOr": "Or",
    "Logistic": "Sigmoid",
    "MaxPool2D": "MaxPool MaxPooling2D",
    "Maximum or ReduceMax": "Max",
    "Mean": "ReduceMean GlobalAveragePool GlobalAveragePooling2D AdaptiveAvgPool2d average",
    "Minimum or ReduceMin": "Min",
    "Mul": "multiply",
    "Neg": "negate negative",
    "NotEqual": "ne",
    "OneHot": "one_hot_encoding",
    "PRelu": "ParametricReLU",
    "Pack": "Stack",
    "Pad": "ConstantPad2d ZeroPad2d ZeroPadding2D",
    "Pow": "power",
    "Quantize": "QuantizeLinear QuantizeV2 quantize_per_tensor",
    "Range": "arange iota",
    "ReduceAll": "all",
    "ReduceAny": "any",
    "ReduceMax": "amax GlobalMaxPool GlobalMaxPooling2D AdaptiveMaxPool2d",
    "ReduceMin": "amin",
    "ReduceProd": "prod",
    "ReluN1To1": "Hardtanh",
    "Reshape": "Flatten view",
    "ResizeNearestNeighbor or ResizeBilinear": "Upsample UpSampling2D Resize interpolate",
    "ReverseV2": "Reverse flip",
    "RmsNorm": "RMSNormalization SimplifiedLayerNormalization",
    "RoPE": "RotaryEmbedding RotaryPositionEmbedding",
    "Rsqrt": "reciprocal_sqrt InverseSqrt",
    "ScatterNd": "scatter",
    "SelectV2": "masked_fill",
    "SpaceToDepth": "PixelUnshuffle",
    "SplitV": "split_with_sizes split_sizes",
    "Split": "chunk",
    "Sqrt": "square_root",
    "StridedSlice": "narrow Crop",
    "Sub": "subtract",
    "Sum": "ReduceSum",
    "TopKV2": "TopK",
    "Transpose": "Permute swapaxes moveaxis movedim",
    "TransposeConv": "ConvTranspose ConvTranspose2d Conv2DTranspose Conv2DBackpropInput Deconvolution Deconv",
    "UnidirectionalSequenceLstm": "LSTMLayer",
    "Unpack": "Unstack unbind",
    "Where": "NonZero",
    "While": "Loop StatelessWhile while_loop",
    "Mul and Add": "BatchNormalization BatchNorm BatchNorm2d FusedBatchNorm FusedBatchNormV3 Scale",
    "Logistic and Mul": "SiLU Swish",
    "Mean, SquaredDifference, Rsqrt, Mul and Add": "LayerNormalization LayerNorm GroupNorm",
    "Minimum and Maximum": "Clip Clamp ClipByValue",
    "Mul, Add and Relu6": "HardSigmoid",
    "Exp, Add and Log": "Softplus",
    "Sum, Exp and Log": "ReduceLogSumExp logsumexp",
    "Div with 1 as its first operand": "Reciprocal",
}
"""Names of operators in PyTorch, ONNX, TensorFlow, Keras, JAX and Caffe, by the names in the text form.

An entry has several names, separated by spaces.  A key with ``or`` lists alternatives.  A key with ``and`` or
``with`` lists operators that together compute an operator that the schema does not have.
"""

MISSPELT_LENGTH = 4
"""A word of more letters than this also matches a name of another framework that is one edit away."""


def suggest_operator(word: str, names: Iterable[str]) -> str:
    """Return a hint such as ``; did you mean NAME?`` for the unknown operator ``word``, or "".

    ``names``: the operators that are allowed here, spelt as the hint shall show them.  Of two spellings of
    one operator, list the preferred one first.
    """
    known = list(names)
    by_key = {_comparable(name): name for name in reversed(known)}  # reversed: the first name wins
    key = _comparable(re.split(r"[.:/]", word.strip(".:/"))[-1])  # the last part of torch.nn.ReLU or tf::Relu
    if key in by_key:
        return f"; did you mean {by_key[key]}?"
    others = {_comparable(name): phrase for phrase, listed in OTHER_NAMES.items() for name in listed.split()}
    hint = "" if key in others else did_you_mean(word, known)
    if hint or len(key) >= SEARCH_LIMIT_CHARACTERS:
        return hint
    closest = min(others, key=lambda other: edit_distance(key, other))
    allowed_edits = int(len(key) > MISSPELT_LENGTH)
    return _shown(others[closest], by_key) if edit_distance(key, closest) <= allowed_edits else ""


def _shown(phrase: str, by_key: Mapping[str, str]) -> str:
    """Return the suggestion for ``phrase``, a key of OTHER_NAMES; "" if one of its operators is unknown.

    ``by_key``: the spelling of each known operator.
    """
    steps = re.findall(r"[A-Z]\w*", phrase)
    if not all(_comparable(step) in by_key for step in steps):
        return ""
    shown = re.sub(r"[A-Z]\w*", lambda match: by_key[_comparable(match[0])], phrase)
    is_choice = phrase == steps[0] or " or " in phrase  # else it is a list of operators to use together
    return f"; did you mean {shown}?" if is_choice else f"; write it as {shown}"


def _comparable(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
