# SPDX-License-Identifier: Apache-2.0
"""Enums of attributes.  Member names are those of the schema; io maps them by name."""

from __future__ import annotations

from enum import Enum, auto


class Named(Enum):
    """An enum whose members only have names; their numbers are arbitrary."""

    def __repr__(self) -> str:
        return self.name


class Padding(Named):
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


class MirrorPadMode(Named):
    REFLECT = auto()
    SYMMETRIC = auto()


class WeightsFormat(Named):
    DEFAULT = auto()
    SHUFFLED4x16INT8 = auto()
    SHUFFLED16x1FLOAT32 = auto()


class RoPEMode(Named):
    GPT_NEOX = auto()
    GPT_J = auto()


class LSTMKernelType(Named):
    FULL = auto()
    BASIC = auto()


class LSHProjectionType(Named):
    UNKNOWN = auto()
    SPARSE = auto()
    DENSE = auto()


class CombinerType(Named):
    SUM = auto()
    MEAN = auto()
    SQRTN = auto()


class ReduceWindowFunction(Named):
    UNSUPPORTED = auto()
    ADD = auto()
    MUL = auto()
    MINIMUM = auto()
    MAXIMUM = auto()
    ALL = auto()
    ANY = auto()


class CustomOptionsFormat(Named):
    FLEXBUFFERS = auto()
