# SPDX-License-Identifier: Apache-2.0
"""Models of one operator for every combination of dtypes and quantization that its declaration allows.

A sample is a model that tools.kit draws (shapes, parameters and attributes that fit each other), with other
dtypes, quantization, elements and enumerated attributes.  Its elements are positive and small: what is asked
is whether a runtime has the form, not how it rounds.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.errors import CirclekitError
from circlekit.interp import run
from circlekit.ir.declaration import Operand
from circlekit.ir.dtypes import DType, f32, i32, i64
from circlekit.ir.enums import Activation, Named
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.constant_operands import packed
from circlekit.recipes.load import load_recipe
from circlekit.testing.model_builder import Rejected
from circlekit.testing.random_operators import is_parameter
from tools.kit.draw import Draw, graph_of
from tools.kit.families.base import FAMILIES, codes
from tools.kit.families.declared import FIXED_SCALES, NOT_COMPARED, declared_case

RANKS = (4, 3, 2, 4, 1, 5, 4, 6, 3, 4, 8, 7, 2, 0)
"""Ranks of the data of consecutive samples."""

RECIPE_EVERY, EMPTY_EVERY = 7, 23
"""One sample in this number is that of a recipe; may have dimensions of 0."""

ATTEMPTS = 2 * len(RANKS)
"""Models that tools.kit draws, until one fits the wanted rank, or another."""

QUANTIZABLE = (DType.INT8, DType.UINT8, DType.INT16, DType.INT4)
PROBED = (*(d for d in DType if d.numpy is not None), DType.INT4)
FILTERS = ("filter", "weights", "weight")
"""Operands that may have a dtype of their own, and scales per channel."""


REAL_ATTRIBUTES = (0.0, 0.1, 0.5, 1.0, 2.0)
"""Slopes, exponents and factors that are tried besides the drawn ones."""

LARGE_FACTOR = 300
"""Biases of integers, and int16 slopes, are multiples of this: read as another dtype, they change results."""

FROM_RECIPES = NOT_COMPARED | {
    *("BITCAST", "BUCKETIZE", "CONV_3D", "CONV_3D_TRANSPOSE", "EMBEDDING_LOOKUP_SPARSE", "REVERSE_SEQUENCE"),
    *("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "SPARSE_TO_DENSE"),
}
"""Operators whose declarations do not say which shapes and elements fit."""

NOT_SAMPLED = frozenset({"DENSIFY", "SKIP_GRAM"})
"""Operators on sparse data and strings."""

DERIVED = ("in_data_type", "quantized_bias_type")
"""Attributes with a dtype that follows from the operands."""


RECIPES = Path(__file__).parents[2] / "recipes" / "ops"


class Types(NamedTuple):
    """``dtypes``: of the operands, None where absent.  ``result``: chosen where it does not follow.

    ``quantized``: integers of 4 to 16 bits have a scale.  ``per_channel``: the operand with a scale per
    channel, or None.
    """

    dtypes: tuple[DType | None, ...]
    result: DType | None
    quantized: bool
    per_channel: int | None


@dataclass
class Sample:
    """A graph of one operator, and inputs of a run."""

    graph: Graph
    inputs: list[Array]

    @property
    def op(self) -> Op:
        return next(iter(self.graph))


@cache
def sampled_codes(format: str) -> list[str]:
    """Return the codes of the operators of ``format`` that have samples; stateful ones have none."""
    known = {*codes(), *_recipe_bases()} & REGISTRY.keys() - NOT_SAMPLED
    classes = {code: REGISTRY[code] for code in sorted(known)}
    return [code for code, cls in classes.items() if cls.pure and format in cls.formats]


def all_types(cls: type[Op]) -> Iterator[Types]:
    """Yield every combination; operands with the same declared dtypes have the same dtype.

    Filters and optional operands have their own; data and indices may differ.
    """
    groups: dict[Any, list[DType | None]] = {}
    keys = []
    for index, spec in enumerate(cls.operands):
        is_free = spec.optional or spec.name in FILTERS or (is_parameter(spec) and not is_index(spec))
        keys.append(index if is_free else (is_index(spec), frozenset(spec.dtypes)))
        known = [d for d in PROBED if d in spec.dtypes or not spec.dtypes]
        groups.setdefault(keys[-1], [*known, None] if spec.optional else list(known))
    for chosen in product(*groups.values()):
        by_key = dict(zip(groups, chosen, strict=True))
        dtypes = tuple(by_key[key] for key in keys)
        for result in _result_choices(cls):
            small = [i for i, d in enumerate(dtypes) if d in QUANTIZABLE and not is_index(cls.operands[i])]
            yield Types(dtypes, result, False, None)
            if small or result in QUANTIZABLE:
                yield Types(dtypes, result, True, None)
            yield from (Types(dtypes, result, True, i) for i in small if _may_be_per_channel(cls, i))


def is_index(spec: Operand) -> bool:
    """Return whether an operand holds axes, sizes or indices."""
    data = (*FILTERS, "bias", "gamma", "beta")
    return spec.name == "k" or (is_parameter(spec) and spec.name not in data)


def has_activation(cls: type[Op]) -> bool:
    """Return whether an activation may be fused into an operator."""
    return any(isinstance(item.default, Activation) for item in cls.attributes)


def slopes(cls: type[Op] | Op) -> tuple[str, ...]:
    """Return the names of the operands that are multiplied with negative numbers only."""
    return cls.quantization_rule.slopes if cls.quantization_rule is not None else ()


@cache
def takes_negatives(code: str) -> bool:
    """Return whether an operator gets negative numbers: one with slopes, or a function of one operand.

    The function must have finite results for floats below 0.
    """
    cls = REGISTRY[code]
    if slopes(cls):
        return True
    if not cls.elementwise or len(cls.operands) > 1 or f32 not in (cls.operands[0].dtypes or (f32,)):
        return False
    numbers = np.array([-0.3, -0.7], np.float32)
    with suppress(CirclekitError), np.errstate(all="ignore"):
        graph = graph_of(cls(Value("", f32, numbers.shape), results=[Value("", f32, numbers.shape)]))
        return bool(np.isfinite(run(Model([graph]), [numbers])[0]).all())
    return False


def _may_be_per_channel(cls: type[Op], index: int) -> bool:
    spec = cls.operands[index]
    if any(s.name in FILTERS for s in cls.operands):
        return spec.name in FILTERS
    return spec.name == "y" or (index == 0 and (cls.data_movement or cls.code == "DEQUANTIZE"))


def _result_choices(cls: type[Op]) -> Sequence[DType | None]:
    if cls.code == "QUANTIZE":
        return (DType.INT8, DType.UINT8, DType.INT16)
    if cls.code in ("CAST", "BITCAST"):
        return PROBED[:-1]
    chosen = (a for a in cls.attributes if isinstance(a.default, DType))
    return (i32, i64) if any(a.name not in DERIVED for a in chosen) else (None,)


# -- models that tools.kit draws ---------------------------------------------------------------


class RankedDraw(Draw):
    """Draws all shapes with one rank.

    ``last_axes``: axes that the family appends itself.  ``is_empty``: whether dimensions may be 0.
    """

    rank = 4
    last_axes = 0
    is_empty = False

    def shape(self, low: int = 1, high: int = 4, size: int = 7, limit: int = 2000) -> tuple[int, ...]:
        rank = max(self.rank - self.last_axes, 0)
        shape = super().shape(rank, rank, min(size, 5), 600)
        is_empty = rank > 0 and self.is_empty and self.chance(0.5)
        return (0, *shape[1:]) if is_empty and self.chance(0.5) else (*shape[:-1], 0) if is_empty else shape


def _base(code: str, number: int, seed: int) -> tuple[Op, dict[Value, Array]] | None:
    """Return an operator, mostly a drawn one, else that of a recipe; with elements that fit it."""
    from_recipe = _recipe_bases().get(code)
    if from_recipe is not None and (number % RECIPE_EVERY == RECIPE_EVERY - 1 or code in FROM_RECIPES):
        return from_recipe
    return _drawn(code, number, seed)


@cache
def _drawn(code: str, number: int, seed: int) -> tuple[Op, dict[Value, Array]] | None:
    """Return an operator that tools.kit draws, of data of the rank for ``number``, or another that fits."""
    for attempt in range(ATTEMPTS if code in codes() else 0):
        draw = RankedDraw(code, np.random.default_rng([seed, zlib.crc32(code.encode()), number, attempt]))
        draw.rank = RANKS[(number + attempt // 2) % len(RANKS)]
        draw.is_empty = number % EMPTY_EVERY == EMPTY_EVERY - 1
        draw.last_axes = {"FULLY_CONNECTED": 1, "BATCH_MATMUL": 2}.get(code, 0)
        with suppress(Rejected, CirclekitError, ValueError, IndexError), np.errstate(all="ignore"):
            if code in FAMILIES:
                case = FAMILIES[code].make(draw, REGISTRY[code], FAMILIES[code].kinds[0])
            else:
                case = declared_case(draw, REGISTRY[code])
            op = next(iter(case.graph))
            if case.refused is None:
                arrays = dict(zip(case.graph.inputs, case.inputs, strict=True))
                arrays |= {v: v.array() for v in op.inputs if v is not None and v.is_const}
                return op, {v: arrays[v] for v in _indices(op)}
    return None


@cache
def _recipe_bases() -> dict[str, tuple[Op, dict[Value, Array]]]:
    """Return the first operator of each code in the recipes, with the elements of its operands."""
    found: dict[str, tuple[Op, dict[Value, Array]]] = {}
    for path in sorted(RECIPES.glob("*.ck")):
        model = load_recipe(path)
        graph = model.graphs[0]
        inputs = make_inputs(graph, InputSet("normal"))
        for op in [op for op in graph if op.code not in found]:
            graph.outputs = tuple(v for v in op.inputs if v is not None and not v.is_variable)
            with suppress(CirclekitError):
                arrays = dict(zip(graph.outputs, run(model, inputs), strict=True))
                kept = _indices(op)
                found[op.code] = op, {v: a for v, a in arrays.items() if v in kept or a.dtype.kind == "i"}
    return found


def _indices(op: Op) -> list[Value]:
    """Return the operands with axes, sizes or indices."""
    last = len(op.operands) - 1
    named = ((op.operands[min(i, last)], v) for i, v in enumerate(op.inputs) if v is not None)
    return [value for spec, value in named if is_index(spec)]


def draw_sample(code: str, types: Types, number: int, seed: int) -> Sample | None:
    """Return sample ``number`` of an operator with operands of ``types``; None if none fits.

    Shapes and attributes, and which operands are constant, depend on the number alone.
    """
    base = _base(code, number, seed)
    if base is None:
        return None
    rng = np.random.default_rng([seed, zlib.crc32(code.encode()), number])
    with suppress(CirclekitError, ValueError, IndexError, TypeError):
        return _Retyping(*base, types, rng, plain=number // len(RANKS) % 2 == 0).sample()
    return None


# -- other dtypes, elements and quantization ---------------------------------------------------


@dataclass
class _Retyping:
    """Other types for a drawn ``op``, whose operands hold ``arrays``.

    ``plain``: constants where they are usual, no fused activation, the same quantization wherever possible;
    so even a form with many constraints runs now and then.
    """

    op: Op
    arrays: dict[Value, Array]
    types: Types
    rng: np.random.Generator
    plain: bool
    attributes: dict[str, Any] = field(default_factory=dict)

    def sample(self) -> Sample | None:
        """Return the operator on operands of the wanted types; None if it has no place for one of them."""
        cls = type(self.op)
        count = max(len(self.op.inputs), len(cls.operands))
        self.attributes = self._attributes()
        writes_absent = self.rng.random() < 0.5
        chances = self.rng.random(count)
        old = [*self.op.inputs, *[None] * (count - len(self.op.inputs))]
        operands: list[Value | None] = []
        samples: dict[Value, Array] = {}
        for index in range(count):
            spec = cls.operands[min(index, len(cls.operands) - 1)]
            dtype = self.types.dtypes[min(index, len(cls.operands) - 1)]
            shape = self._shape(spec, old[index])
            if dtype is not None and shape is None:
                return None
            value = None
            if dtype is not None and shape is not None:
                quantization = self._quantization(spec, index, dtype, shape, operands)
                known = self.arrays.get(old[index])  # type: ignore[arg-type]
                value, samples_of_value = self._value(spec, dtype, shape, quantization, known, chances[index])
                samples[value] = samples_of_value
            operands.append(value)
        while operands[-1] is None and not writes_absent:
            operands.pop()
        _ensure_input(cls, operands)
        graph = graph_of(self._typed(operands))
        return Sample(graph, [samples[v] for v in graph.inputs])

    def _typed(self, operands: Sequence[Value | None]) -> Op:
        """Return the operator on ``operands``, with results of the types that follow."""
        cls, attributes = type(self.op), self.attributes
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
        for value in results:
            if self.types.quantized and value.dtype in QUANTIZABLE:
                value.quantization = self._result_quantization(value, operands)
        return cls(*operands, results=results, **attributes)

    def _shape(self, spec: Operand, old: Value | None) -> tuple[int, ...] | None:
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
    ) -> tuple[Value, Array]:
        """Return an operand and its elements, random if ``array`` is None; int4 is always constant."""
        zero = 0 if quantization is None else int(quantization.zero_point.max(initial=0))
        if array is None and dtype is DType.BOOL:
            array = self.rng.random(shape) < 0.5
        elif array is None:
            is_integer = dtype.numpy is None or dtype.numpy.kind in "iu"
            most = 7 if quantization is None or dtype is DType.INT4 else 60
            array = self.rng.integers(1, most, shape, endpoint=True) if is_integer else self._reals(shape)
            if has_activation(type(self.op)) or takes_negatives(self.op.code):
                array = array * np.where(self.rng.random(shape) < 0.5, -1, 1)
            if is_integer and (
                spec.name == "bias" or (dtype is DType.INT16 and spec.name in slopes(self.op))
            ):
                array = array * LARGE_FACTOR
            array = np.abs(array + zero) if dtype.short.startswith("u") else array + zero
        array = np.asarray(array).astype(np.int8 if dtype.numpy is None else dtype.numpy)
        value = Value("", dtype, shape, None, quantization)
        if dtype is DType.INT4:
            value.data = packed(array, dtype)
        elif chance < (0.8 if is_parameter(spec) else 0.2) or (self.plain and is_parameter(spec)):
            value.data = array
        return value, array

    def _reals(self, shape: tuple[int, ...]) -> Array:
        """Return numbers that every function takes; larger ones where an activation may be fused."""
        return self.rng.uniform(0.1, 4 if has_activation(type(self.op)) else 0.9, shape)

    def _quantization(
        self,
        spec: Operand,
        index: int,
        dtype: DType,
        shape: tuple[int, ...],
        operands: Sequence[Value | None],
    ) -> Quantization | None:
        """Return the quantization of an operand; that of a bias follows from data and weights."""
        if not self.types.quantized or is_index(spec):
            return None
        before = [v for v in operands if v is not None and v.quantization is not None]
        scales = [v.quantization for v in before if v.quantization is not None]
        if spec.name == "bias" and dtype in (i32, i64) and len(scales) == 2:
            scale = np.asarray(scales[0].scale * scales[1].scale, np.float32)
            return Quantization(scale, np.zeros(scale.size, np.int64))
        if dtype not in QUANTIZABLE:
            return None
        if index == self.types.per_channel:
            axis = self._channel_axis(len(shape))
            scale = np.linspace(0.02, 0.03, shape[axis], dtype=np.float32)
            return Quantization(scale, np.zeros(scale.size, np.int64), axis)
        alike = bool(before) and before[0].dtype is dtype and not scales[0].is_per_channel
        if alike and spec.name not in FILTERS and (self.plain or self.rng.random() < 0.5):
            return scales[0]
        part = 0.2 if dtype is DType.INT16 or spec.name in FILTERS else 0.5
        is_offset = dtype is not DType.INT4 and not self.plain and self.rng.random() < part
        zero = int(self.rng.integers(1, 8)) if is_offset else 0
        return Quantization(np.array([self.rng.choice((0.02, 0.1))], np.float32), np.array([zero]))

    def _channel_axis(self, rank: int) -> int:
        """Return the axis of the channels of filters and weights; 0 of other operands."""
        if self.op.code == "BATCH_MATMUL":
            return rank - (2 if self.attributes["adj_y"] else 1)
        return rank - 1 if self.op.code == "DEPTHWISE_CONV_2D" else 0

    def _result_quantization(self, value: Value, operands: Sequence[Value | None]) -> Quantization:
        """Return the quantization of a result: that of the data, the one LiteRT fixes, or another."""
        cls = type(self.op)
        data = next((v.quantization for v in operands if v is not None and v.dtype is value.dtype), None)
        if self.types.per_channel == 0 and data is not None and cls.operands[0].name not in FILTERS:
            axis = data.quantized_dimension
            if value.shape is not None and len(value.shape) > axis and value.shape[axis] == data.scale.size:
                return data
        sort = self.rng.random()
        fixed = FIXED_SCALES.get(cls.code, {}).get(value.dtype)
        if fixed is not None and (self.plain or sort < 0.6):
            return Quantization(np.array(fixed[:1], np.float32), np.array(fixed[1:]))
        zero = 0 if self.plain or sort < 0.8 else int(self.rng.integers(1, 8))
        if any(spec.name in FILTERS for spec in cls.operands):
            return Quantization(np.array([self._sum_scale(value.dtype)], np.float32), np.array([zero]))
        if data is not None and not data.is_per_channel and (self.plain or sort < 0.5):
            return data
        return Quantization(np.array([self.rng.choice((0.25, 0.5))], np.float32), np.array([zero]))

    def _sum_scale(self, dtype: DType) -> float:
        """Return a scale for sums of products of data and filter, that they neither saturate nor vanish."""
        named = zip(self.op.operands, self.op.inputs, strict=False)
        shape = next(v.static_shape for spec, v in named if spec.name in FILTERS and v is not None)
        axis = -1 if self.op.code == "DEPTHWISE_CONV_2D" else 0
        return float(np.prod(shape)) / shape[axis] / (50 if dtype is not DType.INT16 else 50 * 128)

    def _attributes(self) -> dict[str, Any]:
        """Return the attributes, booleans and enumerations drawn again, dtypes as the types say."""
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


def _bias_type(cls: type[Op], operands: Sequence[Value | None]) -> DType:
    """Return the attribute that tells LiteRT an unusual dtype of the bias of int16 data."""
    named = dict(zip((spec.name for spec in cls.operands), operands, strict=False))
    data, bias = named.get("input"), named.get("bias")
    unusual = data is not None and data.dtype is DType.INT16 and bias is not None and bias.dtype is i32
    return i32 if unusual else f32


def _ensure_input(cls: type[Op], operands: Sequence[Value | None]) -> None:
    """Make the first operand that may be an input one, if all are constants."""
    present = [v for v in operands if v is not None]
    if all(v.is_const for v in present):
        free = [v for v in present if v.dtype is not DType.INT4]
        data = [v for v, s in zip(operands, cls.operands, strict=False) if v in free and not is_parameter(s)]
        for value in (data or free)[:1]:
            if value is not None:
                value.data = None
