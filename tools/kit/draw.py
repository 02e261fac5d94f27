# SPDX-License-Identifier: Apache-2.0
"""Seeded choices of shapes, elements, quantization and attributes, and models of one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.dtypes import DType, i32
from circlekit.ir.enums import Activation, Named
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.quantization import dtype_limits
from tools.kit.kinds import Case, Kind
from tools.kit.twin import real_ranges

T = TypeVar("T")

CONSTANT_PROBABILITY = 0.85
"""Probability that a parameter operand (axes, a shape) is a constant, not an input."""


class Draw:
    """A case under construction.  ``samples``: the contents of its operands."""

    def __init__(self, code: str, rng: np.random.Generator) -> None:
        self.code = code
        self.rng = rng
        self.samples: dict[Value, Array] = {}

    # -- choices -------------------------------------------------------------------------------

    def choice(self, items: Sequence[T]) -> T:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def integers(self, low: int, high: int, count: int) -> list[int]:
        return [int(n) for n in self.rng.integers(low, high + 1, count)]

    def real(self, low: float, high: float) -> float:
        """Return a number whose logarithm is uniformly distributed."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def shape(self, low: int = 1, high: int = 4, size: int = 7, limit: int = 2000) -> tuple[int, ...]:
        """Return a shape of rank ``low`` to ``high``, dimensions up to ``size``, up to ``limit`` elements."""
        rank = self.integer(low, high)
        while True:
            dims = tuple(self.integers(1, size, rank))
            if int(np.prod(dims)) <= limit:
                return dims
            size -= 1

    def attributes(self, cls: type[Op], **given: Any) -> dict[str, Any]:
        """Return all attributes of ``cls``: those ``given``, random enums and booleans, and defaults."""
        return {
            a.name: given[a.name] if a.name in given else self.attribute(a.default) for a in cls.attributes
        }

    def attribute(self, default: Any) -> Any:
        if isinstance(default, Activation):
            bounded = (Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)
            return self.choice((Activation.NONE, *bounded))
        if isinstance(default, Named):
            return self.choice(list(type(default)))
        return self.chance(0.5) if isinstance(default, bool) else default

    # -- elements ------------------------------------------------------------------------------

    def summands(self, shape: Sequence[int]) -> Array:
        """Return floats whose sums do not overflow, which would depend on the order of addition."""
        x = self.floats(shape)
        return np.where(np.isfinite(x), np.clip(x, -20, 20), x)

    def floats(self, shape: Sequence[int]) -> Array:
        """Return floats near 0, multiples of 0.5 (rounding ties), of all magnitudes, or not finite."""
        sort = self.rng.random()
        x = self.rng.normal(size=tuple(shape))
        if sort < 0.5:
            x *= self.real(0.1, 20)
        elif sort < 0.65:
            x = np.round(x * 6) / 2
        elif sort < 0.8:
            x = self.rng.uniform(-1, 1, tuple(shape))
        elif sort < 0.92:
            x *= np.exp(self.rng.uniform(-12, 12, tuple(shape)))
        else:
            special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38])
            x = np.where(self.rng.random(tuple(shape)) < 0.2, self.rng.choice(special, tuple(shape)), x)
        with np.errstate(all="ignore"):
            return x.astype(np.float32)

    def array(
        self, dtype: DType, shape: Sequence[int], low: int | None = None, high: int | None = None
    ) -> Array:
        """Return elements of ``dtype``; integers are from ``low`` to ``high``."""
        numpy = dtype.numpy
        assert numpy is not None
        if numpy.kind == "f":
            with np.errstate(all="ignore"):
                return self.floats(shape).astype(numpy)
        if numpy.kind == "c":
            return np.nan_to_num(
                self.summands(shape) + 1j * self.summands(shape), posinf=1, neginf=-1
            ).astype(numpy)
        if numpy.kind == "b":
            return self.rng.random(tuple(shape)) < 0.5
        least, most = dtype_limits(dtype)
        if low is None or high is None:
            reach = self.choice((3, 100, 1 << 40)) if numpy.itemsize > 2 else 1 << 40
            low, high = -reach, reach
        low, high = max(low, least), min(high, most, (1 << 63) - 1)
        drawn = self.rng.integers(low, high, tuple(shape), dtype=np.int64, endpoint=True)
        return drawn.astype(numpy)

    def quantization(self, dtype: DType, real: tuple[float, float] | None = None) -> Quantization:
        """Return a scale and zero point: random, or such that they roughly cover the ``real`` range.

        int16 is symmetric.  A range is at least 0.05 wide: with much smaller scales than those of the
        operands, LiteRT shifts int32 by more than 31 bits.
        """
        low, high = dtype_limits(dtype)
        if real is None:
            scale, zero = self.real(0.002, 2), self.integer(low, high)
        else:
            spread = max(real[1] - real[0], 0.05) * self.real(0.4, 2.5)
            scale = min(spread / (high - low), 1e9)
            zero = int(np.clip(round(low - real[0] / scale), low, high))
        if dtype not in (DType.INT8, DType.UINT8):
            zero = 0
            if real is not None:
                scale = max(abs(real[0]), abs(real[1]), 0.05) / high * self.real(0.4, 2.5)
        return Quantization(np.array([scale], np.float32), np.array([zero]))

    # -- values --------------------------------------------------------------------------------

    def tensor(
        self,
        kind: Kind,
        shape: Sequence[int],
        quantization: Quantization | None = None,
        const: float = 0.1,
        low: int | None = None,
        high: int | None = None,
        make: Callable[[], Array] | None = None,
    ) -> Value:
        """Return an input of the graph, or with probability ``const`` a constant.

        ``make`` returns the elements; default: ``array``.  Default of ``quantization``: random.
        """
        if kind.quantized and quantization is None:
            quantization = self.quantization(kind.dtype)
        value = Value("", kind.dtype, tuple(shape), None, quantization)
        array = np.asarray(make() if make is not None else self.array(kind.dtype, shape, low, high))
        self.samples[value] = array
        if self.chance(const):
            value.data = array
        return value

    def constant(
        self, array: Any, dtype: DType | None = None, quantization: Quantization | None = None
    ) -> Value:
        numpy = None if dtype is None else dtype.numpy
        return Value.constant("", np.array(array, numpy), quantization)

    def parameter(self, numbers: Any, dtype: DType = i32, const: float = CONSTANT_PROBABILITY) -> Value:
        """Return an operand with axes, sizes or indices: mostly a constant, else an input."""
        array = np.array(numbers, dtype.numpy)
        value = Value("", dtype, array.shape, array if self.chance(const) else None)
        self.samples[value] = array
        return value

    # -- models --------------------------------------------------------------------------------

    def case(
        self,
        cls: type[Op],
        operands: Sequence[Value | None],
        label: str,
        outputs: Sequence[Quantization | None] = (),
        **attributes: Any,
    ) -> Case:
        """Return a model of one operator.

        ``attributes``: the others are random.  ``outputs``: quantizations of the results; missing ones
        cover the range of the results in real numbers.
        """
        drawn = self.attributes(cls, **attributes)
        dtype = next(v for v in operands if v is not None).dtype
        op = cls(*operands, results=[Value("", dtype, None) for _ in cls.result_names], **drawn)
        refused = None
        try:
            inferred = op.inferred()
        except CirclekitError as error:
            refused = error.message
        else:
            results = [Value("", t.dtype, t.shape, None, t.quantization) for t in inferred]
            op = cls(*operands, results=results, **drawn)
        self._quantize(op, outputs, quantized=label.endswith(" q"))
        graph = graph_of(op)
        return Case(self.code, label, graph, [self.samples[v] for v in graph.inputs], refused)

    def _quantize(self, op: Op, given: Sequence[Quantization | None], quantized: bool) -> None:
        ranges: list[tuple[float, float] | None] | None = None
        for index, value in enumerate(op.results):
            if index < len(given) and given[index] is not None:
                value.quantization = given[index]
            elif (
                quantized
                and value.quantization is None
                and value.dtype in (DType.INT8, DType.UINT8, DType.INT16)
            ):
                if ranges is None:
                    ranges = real_ranges(op, self.samples)
                value.quantization = self.quantization(value.dtype, ranges[index] if ranges else None)


def graph_of(op: Op, name: str = "main") -> Graph:
    """A graph of this one operator, whose inputs are the operands without data."""
    inputs: dict[Value, None] = {}
    for index, (operand, value) in enumerate(op.operand_items()):
        value.name = value.name or f"{operand}{index}"
        if not value.is_const and not value.is_variable:
            inputs[value] = None
    graph = Graph(name, tuple(inputs))
    graph.append(op)
    graph.outputs = op.results
    return graph
