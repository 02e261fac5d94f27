# SPDX-License-Identifier: Apache-2.0
"""Draw samples: an operator on operands of given dtypes, with elements and quantization that fit together.

tools.probe_targets asks whether a runtime has the form: then elements are small and mostly positive.
tools.kit asks how a kernel rounds: then elements are of all magnitudes.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from circlekit.equivalence.real_numbers import real_numbers
from circlekit.equivalence.seeded_inputs import TEXTS
from circlekit.errors import CirclekitError
from circlekit.interp import run
from circlekit.ir.declaration import Operand
from circlekit.ir.dtypes import DType, f32, i16, i32, i64
from circlekit.ir.enums import Activation, Named
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.quantization_rule import OWN_RANGES, QuantizationRule
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.constant_operands import packed
from circlekit.quant.parameters import asymmetric, symmetric
from circlekit.testing.model_builder import graph_of
from circlekit.testing.random_constants import is_parameter
from tools.samples.drawing import FROM_RECIPES, RANKS, base_of
from tools.samples.types import FILTERS, QUANTIZABLE, Types, is_index, per_tensor

REAL_ATTRIBUTES = (0.0, 0.1, 0.5, 1.0, 2.0)
"""Slopes, exponents and factors that are tried besides the drawn ones."""

LARGE_FACTOR = 300
"""In small samples, integer biases and int16 slopes are multiples of this: it reveals a misread dtype."""

SUMS = ("BATCH_MATMUL", "LOCAL_RESPONSE_NORMALIZATION")
"""Operators that add products and fuse no activation: infinite results depend on the order of additions."""


@dataclass
class Sample:
    """A graph of one operator, and inputs of a run."""

    graph: Graph
    inputs: list[Array]

    @property
    def op(self) -> Op:
        return next(iter(self.graph))


def draw_sample(code: str, types: Types, number: int, seed: int, small: bool = True) -> Sample | None:
    """Return sample ``number`` of an operator with operands of ``types``; None if none fits.

    Shapes and attributes other than dtypes do not depend on ``types``.  The choice of constants depends on
    them in two cases: int4 operands always are constant, and if all operands would be, one becomes an input.
    ``small``, and every sample of FROM_RECIPES: small elements, mostly positive; else all magnitudes.
    """
    base = base_of(code, number, seed)
    if base is None:
        return None
    rng = np.random.default_rng([seed, zlib.crc32(code.encode()), number])
    typing = _Typing if small or code in FROM_RECIPES else _WideTyping
    with suppress(CirclekitError, ValueError, IndexError, TypeError), np.errstate(all="ignore"):
        return typing(*base, types, rng, plain=number // len(RANKS) % 2 == 0).sample()
    return None


def has_activation(cls: type[Op]) -> bool:
    """Return whether an activation may be fused into an operator."""
    return any(isinstance(item.default, Activation) for item in cls.attributes)


def _rule(cls: type[Op] | Op) -> QuantizationRule:
    return cls.quantization_rule or OWN_RANGES


@cache
def takes_negatives(code: str) -> bool:
    """Return whether samples of an operator have negative numbers even if it has no fused activation.

    This is so for operators with slopes, and for elementwise functions of one operand that are finite for
    negative numbers.
    """
    cls = REGISTRY[code]
    if _rule(cls).slopes:
        return True
    if not cls.elementwise or len(cls.operands) > 1 or f32 not in (cls.operands[0].dtypes or (f32,)):
        return False
    numbers = np.array([-0.3, -0.7], np.float32)
    with suppress(CirclekitError), np.errstate(all="ignore"):
        graph = graph_of(cls(Value("", f32, numbers.shape), results=[Value("", f32, numbers.shape)]))
        return bool(np.isfinite(run(Model([graph]), [numbers])[0]).all())
    return False


@dataclass
class _Typing:
    """Makes a sample with other ``types`` from a drawn ``op``, whose operands hold ``arrays``.

    ``plain``: make what most kernels accept, so that some samples of each form run: constants where they are
    usual, no fused activation, the same quantization wherever possible.
    """

    op: Op
    arrays: dict[Value, Array]
    types: Types
    rng: np.random.Generator
    plain: bool
    attributes: dict[str, Any] = field(default_factory=dict)
    operands: list[Value | None] = field(default_factory=list)
    samples: dict[Value, Array] = field(default_factory=dict)

    def sample(self) -> Sample | None:
        """Return the operator on operands of the wanted types; None if it has no place for one of them."""
        cls = type(self.op)
        count = max(len(self.op.inputs), len(cls.operands))
        self.attributes = self._attributes()
        writes_absent = self.rng.random() < 0.5
        chances = self.rng.random(count)
        old = [*self.op.inputs, *[None] * (count - len(self.op.inputs))]
        for index, spec in enumerate(self._specs(count)):
            dtype = self.types.dtypes[min(index, len(cls.operands) - 1)]
            shape = self._shape(spec, old[index])
            if dtype is not None and shape is None:
                return None
            value = None
            if dtype is not None and shape is not None:
                quantization = self._quantization(spec, index, dtype, shape)
                known = self.arrays.get(old[index])  # type: ignore[arg-type]
                value = self._value(spec, dtype, shape, quantization, known, chances[index])
            self.operands.append(value)
        while self.operands[-1] is None and not writes_absent:
            self.operands.pop()
        _ensure_input(cls, self.operands)
        graph = graph_of(self._typed())
        return Sample(graph, [self.samples[v] for v in graph.inputs])

    def _specs(self, count: int) -> list[Operand]:
        """Return the declarations of ``count`` operands; the last one is repeated for a variadic operand."""
        specs = self.op.operands
        return [specs[min(i, len(specs) - 1)] for i in range(count)]

    def _typed(self) -> Op:
        """Return the operator on ``operands``, with results of the types that follow from them."""
        cls, attributes, operands = type(self.op), self.attributes, self.operands
        if "quantized_bias_type" in attributes:
            attributes["quantized_bias_type"] = _bias_type(cls, operands)
        untyped = cls(
            *operands,
            results=[Value("", self.types.result or v.dtype, None) for v in self.op.results],
            **attributes,
        )
        results = [Value("", t.dtype, t.shape, None, t.quantization) for t in untyped.inferred()]
        if cls.code == "QUANTIZE" and self.types.result is not None:
            results[0].dtype = self.types.result
        for index, value in enumerate(results):
            if self.types.quantized and value.dtype in QUANTIZABLE:
                value.quantization = self._result_quantization(index, value)
        return cls(*operands, results=results, **attributes)

    def _shape(self, spec: Operand, old: Value | None) -> tuple[int, ...] | None:
        """Return the shape of ``old``.  If ``old`` is None: the shape of a bias; None for other operands."""
        if old is not None:
            return old.static_shape
        return (self.op.results[0].static_shape[-1],) if spec.name == "bias" else None

    def _value(
        self,
        spec: Operand,
        dtype: DType,
        shape: tuple[int, ...],
        quantization: Quantization | None,
        array: Array | None,
        chance: float,
    ) -> Value:
        """Return an operand with elements ``array`` or random ones; constant if int4 or ``chance`` is low."""
        if array is None and dtype is DType.BOOL:
            array = self.rng.random(shape) < 0.5
        elif dtype is DType.STRING:
            array = np.array(TEXTS, object)[self.rng.integers(0, len(TEXTS), shape)]
        elif array is None:
            array = self._elements(spec, dtype, shape, quantization)
        array = np.asarray(array).astype(dtype.numpy or (object if dtype is DType.STRING else np.int8))
        value = Value("", dtype, shape, None, quantization)
        self.samples[value] = array
        if dtype is DType.INT4:
            value.data = packed(array, dtype)
        elif chance < (0.8 if is_parameter(spec) else 0.2) or (self.plain and is_parameter(spec)):
            value.data = array
        return value

    def _elements(
        self, spec: Operand, dtype: DType, shape: tuple[int, ...], quantization: Quantization | None
    ) -> Array:
        """Return numbers for which the operator is defined, larger ones if an activation may be fused."""
        is_integer = dtype.numpy is None or dtype.numpy.kind in "iu"
        most = 7 if quantization is None or dtype is DType.INT4 else 60
        array: Array = self.rng.uniform(0.1, 4 if has_activation(type(self.op)) else 0.9, shape)
        if is_integer:
            array = self.rng.integers(1, most, shape, endpoint=True)
        if has_activation(type(self.op)) or takes_negatives(self.op.code):
            array = array * np.where(self.rng.random(shape) < 0.5, -1, 1)
        if is_integer and (
            spec.name == "bias" or (dtype is DType.INT16 and spec.name in _rule(self.op).slopes)
        ):
            array = array * LARGE_FACTOR
        zero = 0 if quantization is None else int(quantization.zero_point.max(initial=0))
        array = array + zero
        if dtype is DType.INT4:
            array = np.minimum(array, dtype.limits[1])
        return np.abs(array) if dtype.short.startswith("u") else array

    def _quantization(
        self, spec: Operand, index: int, dtype: DType, shape: tuple[int, ...]
    ) -> Quantization | None:
        """Return the quantization of an operand; for a bias, it follows from data and weights."""
        if not self.types.quantized or is_index(spec):
            return None
        before = [v for v in self.operands if v is not None and v.quantization is not None]
        scales = [v.quantization for v in before if v.quantization is not None]
        if spec.name == "bias" and dtype in (i32, i64) and len(scales) == 2:
            scale = np.asarray(scales[0].scale * scales[1].scale, np.float32)
            return Quantization(scale, np.zeros(scale.size, np.int64))
        if dtype not in QUANTIZABLE:
            return None
        if index == self.types.per_channel:
            axis = self._channel_axis(len(shape))
            scale = self._channel_scales(shape[axis])
            return Quantization(scale, np.full(scale.size, self._zero_point(spec, dtype)), axis)
        alike = bool(before) and before[0].dtype is dtype and not scales[0].is_per_channel
        if alike and spec.name not in FILTERS and (self.plain or self.rng.random() < 0.5):
            return scales[0]
        return self._own_quantization(spec, dtype)

    def _channel_scales(self, count: int) -> Array:
        return np.linspace(0.02, 0.03, count, dtype=np.float32)

    def _own_quantization(self, spec: Operand, dtype: DType) -> Quantization:
        """Return a quantization for an operand, independent of the other operands."""
        return per_tensor(self.rng.choice((0.02, 0.1)), self._zero_point(spec, dtype))

    def _zero_point(self, spec: Operand, dtype: DType) -> int:
        part = 0.2 if dtype in (DType.INT16, DType.INT4) or spec.name in FILTERS else 0.5
        return int(self.rng.integers(1, 8)) if not self.plain and self.rng.random() < part else 0

    def _channel_axis(self, rank: int) -> int:
        """Return the axis of the channels of the filter or weights; 0 for an operator without them."""
        if self.op.code == "BATCH_MATMUL":
            return rank - (2 if self.attributes["adj_y"] else 1)
        return next((axis for axis in _rule(self.op).weights.values() if axis is not None), 0)

    def _result_quantization(self, index: int, value: Value) -> Quantization:
        """Return the quantization of a result: that of the data, the one LiteRT requires, or another one."""
        cls = type(self.op)
        present = (v for v in self.operands if v is not None)
        data = next((v.quantization for v in present if v.dtype is value.dtype), None)
        if self.types.per_channel == 0 and data is not None and cls.operands[0].name not in FILTERS:
            axis = data.quantized_dimension
            if value.shape is not None and len(value.shape) > axis and value.shape[axis] == data.scale.size:
                return data
        sort = self.rng.random()
        fixed = _rule(cls).fixed.get(value.dtype)
        if fixed is not None and (self.plain or sort < 0.6):
            return per_tensor(*fixed)
        return self._free_quantization(index, value, data, sort)

    def _free_quantization(
        self, index: int, value: Value, data: Quantization | None, sort: float
    ) -> Quantization:
        """Return a quantization of a result, which LiteRT may refuse; ``sort``, from 0 to 1, chooses it."""
        zero = 0 if self.plain or sort < 0.8 else int(self.rng.integers(1, 8))
        if any(spec.name in FILTERS for spec in self.op.operands):
            return per_tensor(self._sum_scale(value.dtype), zero)
        if data is not None and not data.is_per_channel and (self.plain or sort < 0.5):
            return data
        return per_tensor(self.rng.choice((0.25, 0.5)), zero)

    def _sum_scale(self, dtype: DType) -> float:
        """Return a scale with which sums of products of data and filter neither saturate nor vanish."""
        named = zip(self.op.operands, self.op.inputs, strict=False)
        shape = next(v.static_shape for spec, v in named if spec.name in FILTERS and v is not None)
        channels = shape[self._channel_axis(len(shape))]
        return float(np.prod(shape)) / channels / (50 if dtype is not DType.INT16 else 50 * 128)

    def _attributes(self) -> dict[str, Any]:
        """Return attributes: booleans, floats and enumerations often drawn again, dtypes from ``types``."""
        cls = type(self.op)
        given: dict[str, Any] = dict(self.op.attribute_values)
        for item in cls.attributes:
            if item.name == "weights_format" or (self.plain and isinstance(item.default, Activation)):
                given[item.name] = item.default
            elif item.name == "padding" and "output_shape" in {spec.name for spec in cls.operands}:
                continue  # the shape fits this padding only
            elif isinstance(item.default, Named) and self.rng.random() < 0.7:
                members = list(type(item.default))
                given[item.name] = members[int(self.rng.integers(len(members)))]
            elif isinstance(item.default, bool) and self.rng.random() < 0.3:
                given[item.name] = bool(self.rng.random() < 0.5)
            elif isinstance(item.default, float) and not self.plain:
                given[item.name] = float(self.rng.choice(REAL_ATTRIBUTES))
            elif item.name == "in_data_type":
                given[item.name] = self.types.dtypes[0]
            elif isinstance(item.default, DType):
                given[item.name] = self.types.result
        return given


class _WideTyping(_Typing):
    """Makes samples with elements of all magnitudes, and scales of results that cover them."""

    def _elements(
        self, spec: Operand, dtype: DType, shape: tuple[int, ...], quantization: Quantization | None
    ) -> Array:
        if dtype.numpy is not None and dtype.numpy.kind in "fc":
            return self._floats(shape)
        low, high = dtype.limits
        if spec.name == "bias" or (dtype.bits > 16 and self.rng.random() < 0.7):
            reach = int(self.rng.choice((3, 100, 1 << 16)))
            low, high = max(low, -reach), reach
        low = max(low, -((1 << 63) - 1)) + (spec.name in (*FILTERS, "y"))  # weights leave out the lowest one
        if quantization is not None and spec.name in _rule(self.op).not_negative:
            low = int(quantization.zero_point[0])
        return self.rng.integers(low, min(high, (1 << 63) - 1), shape, np.int64, endpoint=True)

    def _floats(self, shape: tuple[int, ...]) -> Array:
        """Return moderate floats, rounding ties, floats of all magnitudes, or some that are not finite."""
        x: Array = self.rng.normal(size=shape)
        sort = self.rng.random()
        if has_activation(type(self.op)) or self.op.code in SUMS:
            x *= np.exp(self.rng.uniform(-2, 1))
        elif sort < 0.5:
            x *= np.exp(self.rng.uniform(-2, 3))
        elif sort < 0.75:
            x = np.round(x * 6) / 2
        elif sort < 0.9:
            x *= np.exp(self.rng.uniform(-12, 12, shape))
        else:
            special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38])
            x = np.where(self.rng.random(shape) < 0.2, self.rng.choice(special, shape), x)
        return x

    def _channel_scales(self, count: int) -> Array:
        return np.exp(self.rng.uniform(np.log(0.002), np.log(0.3), count)).astype(np.float32)

    def _zero_point(self, spec: Operand, dtype: DType) -> int:
        return 0  # of a scale per channel; some kernels of LiteRT ignore others

    def _own_quantization(self, spec: Operand, dtype: DType) -> Quantization:
        is_symmetric = dtype in (DType.INT16, DType.INT4) or (spec.name in FILTERS and dtype is DType.INT8)
        zero = 0 if is_symmetric else int(self.rng.integers(*dtype.limits, endpoint=True))
        return per_tensor(float(np.exp(self.rng.uniform(np.log(0.002), np.log(2)))), zero)

    def _free_quantization(
        self, index: int, value: Value, data: Quantization | None, sort: float
    ) -> Quantization:
        """Return the quantization of the data, or one that roughly covers the results in real numbers."""
        if data is not None and not data.is_per_channel and (_rule(self.op).results_follow or sort < 0.1):
            return data
        low, high = self._range(index)
        width = max(high - low, 0.05) * float(np.exp(self.rng.uniform(-1, 1)))
        cover = symmetric if value.dtype in (DType.INT16, DType.INT4) else asymmetric
        return per_tensor(*cover(min(low, 0.0), min(low, 0.0) + width, value.dtype))

    def _range(self, index: int) -> tuple[float, float]:
        """Return the range of a result for the real numbers of the operands, before a fused activation.

        Scales of results are chosen for this range.  If a result had a much smaller scale than the operands,
        LiteRT might shift by more than 31 bits.
        """
        twins: list[Value | None] = []
        for spec, value in zip(self._specs(len(self.operands)), self.operands, strict=True):
            if value is None or is_index(spec):
                twins.append(value and Value.constant(value.name, self.samples[value]))
                continue
            array = self.samples[value]
            if value.quantization is not None:
                array = _real(value, array)
            twins.append(Value.constant("", np.asarray(array, np.float32)))
        try:
            free = {"act": Activation.NONE} if "act" in self.attributes else {}
            graph = graph_of(type(self.op)(*twins, **self.attributes | free))
            found = np.asarray(run(Model([graph]), [])[index], np.float64)
        except CirclekitError:  # the operator has no float form
            return -1.0, 1.0
        found = found[np.isfinite(found)]
        return float(found.min(initial=0)), float(found.max(initial=0))


def _real(value: Value, array: Array) -> Array:
    """Return the real numbers that the integers of an operand stand for."""
    form = value.quantization
    if form is None or not form.is_per_channel:
        return real_numbers(value, array)
    shape = [-1 if axis == form.quantized_dimension else 1 for axis in range(array.ndim)]
    return np.asarray(array * form.scale.reshape(shape))


def _bias_type(cls: type[Op], operands: Sequence[Value | None]) -> DType:
    """Return ``quantized_bias_type``, where LiteRT would read the bias of int16 data in another dtype."""
    named = dict(zip((spec.name for spec in cls.operands), operands, strict=False))
    data, weights, bias = (getattr(named.get(name), "dtype", f32) for name in ("input", "weights", "bias"))
    return bias if data is i16 and (weights is i16 or bias is i32) else f32


def _ensure_input(cls: type[Op], operands: Sequence[Value | None]) -> None:
    """If all operands are constants, turn the first one that may be an input into an input."""
    present = [v for v in operands if v is not None]
    if all(v.is_const for v in present):
        free = [v for v in present if v.dtype is not DType.INT4]
        data = [v for v, s in zip(operands, cls.operands, strict=False) if v in free and not is_parameter(s)]
        for value in (data or free)[:1]:
            if value is not None:
                value.data = None
