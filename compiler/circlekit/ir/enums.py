# SPDX-License-Identifier: Apache-2.0
"""Enums for attributes of operators.  Member names are those of the schema; io maps them by name."""

from __future__ import annotations

from enum import Enum, auto


class Named(Enum):
    """An enum whose members only have names; their numbers are arbitrary."""

    def __repr__(self) -> str:
        return self.name


class Padding(Named):  # SAME pads so that a result has ceil(size / stride) elements, VALID not at all
    SAME = auto()
    VALID = auto()


class Activation(Named):
    """The activation function fused into an operator: applied to its result."""

    NONE = auto()
    RELU = auto()
    RELU_N1_TO_1 = auto()
    RELU6 = auto()
    TANH = auto()
    SIGN_BIT = auto()


class MirrorPadMode(Named):  # MirrorPad: REFLECT does not repeat the border element, SYMMETRIC does
    REFLECT = auto()
    SYMMETRIC = auto()


class WeightsFormat(Named):  # FullyConnected: order of the weights in memory; DEFAULT is row by row
    DEFAULT = auto()
    SHUFFLED4x16INT8 = auto()
    SHUFFLED16x1FLOAT32 = auto()


class RoPEMode(Named):  # RoPE: rotates elements i and i + n / 2 (GPT_NEOX) or neighbors (GPT_J)
    GPT_NEOX = auto()
    GPT_J = auto()


class LSTMKernelType(Named):  # Lstm: BASIC is the form with five operands
    FULL = auto()
    BASIC = auto()


class LSHProjectionType(Named):  # LshProjection: returns one number per hash (SPARSE) or its bits (DENSE)
    UNKNOWN = auto()
    SPARSE = auto()
    DENSE = auto()


class CombinerType(Named):  # EmbeddingLookupSparse: how the rows of a bucket are combined
    SUM = auto()
    MEAN = auto()
    SQRTN = auto()


class ReduceWindowFunction(Named):  # ReduceWindow; UNSUPPORTED is the default of the schema
    UNSUPPORTED = auto()
    ADD = auto()
    MUL = auto()
    MINIMUM = auto()
    MAXIMUM = auto()
    ALL = auto()
    ANY = auto()


class CustomOptionsFormat(Named):  # StablehloComposite: encoding of composite_attributes
    FLEXBUFFERS = auto()
