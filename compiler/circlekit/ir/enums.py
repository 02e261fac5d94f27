# SPDX-License-Identifier: Apache-2.0
"""Enums for attributes of operators.  Members have the schema's names, by which ``io`` finds them."""

from __future__ import annotations

from enum import Enum, auto


class Named(Enum):
    """An enum whose members are known by their names; the numbers from ``auto`` have no meaning."""

    def __repr__(self) -> str:
        return self.name


class Padding(Named):
    """How a convolution or a pooling pads its data.

    SAME: so that the result has ceil(size / stride) elements along an axis.  VALID: not at all.
    """

    SAME = auto()
    VALID = auto()


class Activation(Named):
    """The activation function of an operator's result.  RELU_N1_TO_1 clips to [-1, 1], RELU6 to [0, 6]."""

    NONE = auto()
    RELU = auto()
    RELU_N1_TO_1 = auto()
    RELU6 = auto()
    TANH = auto()
    SIGN_BIT = auto()


class MirrorPadMode(Named):
    """The mode of MirrorPad: SYMMETRIC repeats the element at the border, REFLECT does not."""

    REFLECT = auto()
    SYMMETRIC = auto()


class WeightsFormat(Named):
    """The order of the weights of FullyConnected in memory: DEFAULT is row by row, others are in blocks."""

    DEFAULT = auto()
    SHUFFLED4x16INT8 = auto()
    SHUFFLED16x1FLOAT32 = auto()


class RoPEMode(Named):
    """The pairs of elements that RoPE rotates, for a vector of n elements.

    GPT_NEOX: element i and element i + n / 2.  GPT_J: element 2 i and element 2 i + 1.
    """

    GPT_NEOX = auto()
    GPT_J = auto()


class LSTMKernelType(Named):
    """The variant of Lstm: BASIC has five operands, FULL has more."""

    FULL = auto()
    BASIC = auto()


class LSHProjectionType(Named):
    """The results of LshProjection: one number per hash function (SPARSE), or its single bits (DENSE)."""

    UNKNOWN = auto()
    SPARSE = auto()
    DENSE = auto()


class CombinerType(Named):
    """How EmbeddingLookupSparse divides the weighted sum of the rows that belong to one row of the result.

    SUM: not at all.  MEAN: by the sum of the weights.  SQRTN: by the root of the sum of their squares.
    """

    SUM = auto()
    MEAN = auto()
    SQRTN = auto()


class ReduceWindowFunction(Named):
    """The function of ReduceWindow; UNSUPPORTED is the schema's default."""

    UNSUPPORTED = auto()
    ADD = auto()
    MUL = auto()
    MINIMUM = auto()
    MAXIMUM = auto()
    ALL = auto()
    ANY = auto()


class CustomOptionsFormat(Named):
    """The encoding of ``composite_attributes`` of StablehloComposite."""

    FLEXBUFFERS = auto()
