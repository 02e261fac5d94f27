# SPDX-License-Identifier: Apache-2.0
"""Schemes: named ways to quantize operators, such as ``int8`` or ``weight_int4_block32``.

A scheme says which dtypes activations, weights and biases get, and which of the weights share a scale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from circlekit.errors import UnsupportedError, check_name, did_you_mean, shown
from circlekit.ir.dtypes import DType, f16, i8, i16, i32, i64, u8

NO_SCHEME = "float"
"""The name that stands in place of a scheme for operators that stay float."""

DEFAULT_SCHEME = "int8"
"""The name of the scheme that is used if a caller names none."""


class Arithmetic(Enum):
    """The numbers with which a runtime computes a quantized operator.

    INTEGERS: activations and weights are integers in the file.  DYNAMIC: activations are float in the file;
    the kernel quantizes them at run time and multiplies integers.  FLOATS: a DEQUANTIZE converts the stored
    weights to float, and the float kernel reads the result.
    """

    INTEGERS = "integers"
    DYNAMIC = "dynamic"
    FLOATS = "floats"


@dataclass(frozen=True)
class Scheme:
    """A way to quantize an operator.

    ``name``: what users write.  ``title``: a description for reports.
    ``weights``: the dtype of constant weights.
    ``activations``: the dtype of all float operands and results that are neither weights nor biases; None:
    they stay float.  (``QuantizationRule`` names the few operands that have a dtype of their own.)
    ``bias``: the dtype of biases; None: they stay float.
    ``arithmetic``: the numbers with which the operator is computed.
    ``asymmetric``: activations may have a zero point other than 0.  (The zero point of weights is 0 for every
    dtype but uint8.)
    ``per_channel``: every channel of the weights has its own scale, unless the kernel takes only one
    (``QuantizationRule``); if not, the tensor has one scale.
    ``least_elements``: an operator stays float if each of its weights has fewer elements than this, and less
    than 1 % of the elements of all weights of the model.  Exceptions: the user names the operator, or the
    operator gets this scheme as a fallback.
    ``block``: the number of neighboring weights along the last axis that share a scale; 0: no blocks.  With
    blocks, ``per_channel`` does not count.
    ``follows_one``: tensors get scales by the rules of ONE's quantizer; if not, by the rules of LiteRT.
    ``fallback``: the name of another scheme, or None.  An operator gets the fallback if the target cannot run
    it in this scheme, or if a tensor has no range.  It stays float if there is no fallback, if the fallback
    quantizes no constant of it, if its numbers cannot be quantized (NaN, for example), or if quantizing it
    would make the file larger.
    """

    name: str
    title: str
    weights: DType
    activations: DType | None = None
    bias: DType | None = None
    arithmetic: Arithmetic = Arithmetic.INTEGERS
    asymmetric: bool = True
    per_channel: bool = True
    least_elements: int = 0
    block: int = 0
    follows_one: bool = False
    fallback: str | None = None


_INT8 = Scheme("int8", "int8 activations, int8 weights per channel", i8, i8, i32, fallback="dynamic_int8")
_INT8_PER_TENSOR = replace(
    _INT8, name="int8_per_tensor", title="int8 activations, int8 weights per tensor", per_channel=False
)
_INT16X8 = Scheme(
    "int16x8", "int16 activations, int8 weights per channel, 64-bit biases", i8, i16, i64,
    asymmetric=False, fallback="dynamic_int8",
)  # fmt: skip
_UINT8 = Scheme("uint8", "uint8 per tensor, for old runtimes", u8, u8, i32, per_channel=False)
# Quantizing the weights of first layers, and of depthwise layers with few channels, saves few bytes; but
# rounding the inputs of these layers at run time costs much accuracy, and time.  1024 is also the limit of
# TensorFlow's converter.
_DYNAMIC = Scheme(
    "dynamic_int8", "int8 weights per channel, activations quantized at run time", i8,
    arithmetic=Arithmetic.DYNAMIC, least_elements=1024, fallback="weight_int8",
)  # fmt: skip
_WEIGHT_INT8 = Scheme(
    "weight_int8", "int8 weights per channel, computed as floats", i8, arithmetic=Arithmetic.FLOATS
)
_WEIGHT_INT4 = Scheme(
    "weight_int4", "int4 weights per channel, computed as floats", DType.INT4, arithmetic=Arithmetic.FLOATS
)
_WEIGHT_INT4_BLOCKS = [
    Scheme(
        f"weight_int4_block{size}", f"int4 weights in blocks of {size}, activations quantized at run time",
        DType.INT4, arithmetic=Arithmetic.DYNAMIC, block=size, fallback="weight_int4",
    )
    for size in (32, 64, 128, 256)
]  # fmt: skip
_FLOAT16 = Scheme("float16", "float16 weights, computed as float32", f16, arithmetic=Arithmetic.FLOATS)

_ONE = [
    Scheme("one_uint8", "ONE's uint8 per tensor", u8, u8, i32, per_channel=False, follows_one=True),
    Scheme("one_uint8_channel", "ONE's uint8, weights per channel", u8, u8, i32, follows_one=True),
    Scheme(
        "one_int16", "ONE's int16, weights per channel", i16, i16, i64, asymmetric=False, follows_one=True
    ),
]

SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        _INT8, _INT8_PER_TENSOR, _INT16X8, _UINT8, _DYNAMIC, _WEIGHT_INT8, _WEIGHT_INT4,
        *_WEIGHT_INT4_BLOCKS, _FLOAT16, *_ONE,
    )
}  # fmt: skip
"""All schemes by name: those of LiteRT first, then those of ONE."""


def find_scheme(name: str) -> Scheme | None:
    """Return the scheme ``name``, or None for the name ``float``.

    Raise UnsupportedError for an unknown name; ModelError if ``name`` is not a text.
    """
    check_name("a scheme", name)
    if name == NO_SCHEME:
        return None
    if name not in SCHEMES:
        known = [NO_SCHEME, *SCHEMES]
        near = did_you_mean(name, known)
        raise UnsupportedError(f"no scheme is named {shown(name)}{near}; there are {', '.join(known)}")
    return SCHEMES[name]
