# SPDX-License-Identifier: Apache-2.0
"""Insert FAKE_QUANT operators into a float model, as TensorFlow's contrib.quantize does for training.

A FAKE_QUANT rounds a tensor to equally spaced numbers that cover a range.  The range of weights is that of
their elements; the ranges of activations come from a calibration.  Every range is extended to include 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import f32, i8
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.cast import Dequantize, FakeQuant, Quantize
from circlekit.ops.quantized_values import followed_operand
from circlekit.quant.calibration.calibration import Calibration
from circlekit.quant.calibration.ranges import estimate_range
from circlekit.quant.calibration.statistics import LARGEST, TensorStatistics
from circlekit.quant.fake.insertion_rules import INTERMEDIATE, RULES, InsertionRule
from circlekit.quant.weights import finite_numbers

BITS = range(2, 9)
"""The numbers of bits that contrib.quantize accepts."""

LEAST_WIDTH = 2.0**-118
"""The smallest width of a range.  With 8 bits, the reciprocal of its step is still a finite float32."""

MOST_WIDTH = 2.0**128 - 2.0**108
"""The largest width of a range: a little below the largest float32, because FAKE_QUANT rounds in float32."""

TRAINING_OPTIONS = {
    "quant_delay": "it counts training steps before rounding starts",
    "freeze_bn_delay": "it counts training steps before batch norms are frozen",
    "freeze_batch_norm_delay": "it counts training steps before batch norms are frozen",
    "update_barrier": "it orders updates of training variables",
    "is_training": "it makes ranges trained variables; here they come from a calibration",
}
"""{parameter of contrib.quantize: its meaning}, for the parameters that have a meaning only in training."""


@dataclass(frozen=True)
class FakeQuantOptions:
    """How values are rounded.  Raise UnsupportedError for a wrong value.

    The names are those of contrib.quantize where it has the option.
    ``weight_bits``, ``activation_bits``: 2 to 8.
    ``symmetric``: 0 is in the middle of every range (see ``_symmetric``).
    ``narrow_range``: activations do not use the lowest integer.  (Weights never use it.)
    ``per_channel``: each channel of weights has its own range.  Pairs of QUANTIZE and DEQUANTIZE round them,
    because FAKE_QUANT has only one range.
    ``ema_decay``: ranges of activations are moving averages over the samples, with this decay below 1.
    None: these ranges go from the smallest to the largest number of all samples.
    ``init_range``: the initial range of the moving average; None: it has none, as in contrib.quantize.
    ``scope``: a regular expression.  A value is rounded only if the expression is found in its name; weights
    are rounded only if it is found in the name of the layer's result.  None: all values are rounded.
    ``inputs``: round the inputs of the model, too; contrib.quantize does not round them.
    """

    weight_bits: int = 8
    activation_bits: int = 8
    symmetric: bool = False
    narrow_range: bool = False
    per_channel: bool = False
    ema_decay: float | None = None
    init_range: tuple[float, float] | None = None
    scope: str | None = None
    inputs: bool = False

    def __post_init__(self) -> None:
        for name in ("weight_bits", "activation_bits"):
            bits = getattr(self, name)
            if not isinstance(bits, int | np.integer) or bits not in BITS:
                limits = f"{BITS[0]} to {BITS[-1]}"
                raise UnsupportedError(f"{name}: expected an integer from {limits}, got {bits!r}")
        if self.ema_decay is not None and not (_is_number(self.ema_decay) and 0 <= self.ema_decay < 1):
            raise UnsupportedError(f"ema_decay: expected 0 or more, less than 1, got {self.ema_decay!r}")
        if self.init_range is not None:
            ends = list(self.init_range) if isinstance(self.init_range, Iterable) else []
            if len(ends) != 2 or not all(map(_is_number, ends)) or ends[0] > ends[1]:
                expected = "init_range: expected (min, max), finite numbers with min <= max"
                raise UnsupportedError(f"{expected}, got {self.init_range!r}")
            if self.ema_decay is None:
                raise UnsupportedError("init_range is the start of a moving average: expected ema_decay, too")
        try:
            re.compile("" if self.scope is None else self.scope).search("")  # TypeError for bytes
        except (re.error, TypeError, OverflowError, RecursionError) as error:
            raise UnsupportedError(f"scope: {self.scope!r} is not a regular expression: {error}") from None
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, bool) and not isinstance(value, bool | np.bool_):
                raise UnsupportedError(f"{field.name}: expected True or False, got {value!r}")


def _is_number(option: object) -> bool:
    """Return whether ``option`` is a finite number that float64 can hold."""
    try:
        return isinstance(option, int | float | np.integer | np.floating) and math.isfinite(option)
    except OverflowError:  # an integer beyond float64
        return False


def refuse_training_options(names: Sequence[str]) -> None:
    """Raise UnsupportedError for the first of ``names``, with the reason; do nothing without names.

    ``names``: the options that a user gave and that FakeQuantOptions does not have.
    """
    for name in names:
        if name in TRAINING_OPTIONS:
            raise UnsupportedError(f"{name} has a meaning only in training: {TRAINING_OPTIONS[name]}")
        raise UnsupportedError(f"fake quantization has no option {name}")


@dataclass(frozen=True)
class Inserted:
    """Describes one inserted rounding.

    ``rule``: the name of the insertion rule; ``input_quant`` for an input.  ``value``: the name of the
    rounded value.
    ``low``, ``high``: the range.  If each channel has its own range, the lowest and the highest end of those
    channels that do not become zeros.
    ``channels``: the number of channels with a range of their own; 0 if the value has a single range.
    """

    rule: str
    value: str
    low: float
    high: float
    channels: int = 0


def insert_fake_quant(model: Model, calibration: Calibration, options: FakeQuantOptions) -> list[Inserted]:
    """Insert FAKE_QUANT operators into every graph of ``model`` in place; return what was inserted.

    ``calibration``: the statistics of this float model.  A value that is rounded already (``has_rounding``)
    is not rounded again.

    Raise ModelError if an activation has no statistics or no finite number, or if weights are not finite.
    """
    done: list[Inserted] = []
    called = {graph for op in model.ops() for graph in op.called_graphs()}  # their inputs are not the model's
    for index, graph in enumerate(model.graphs):
        inserter = _Inserter(graph, calibration, index, options)
        if options.inputs and graph not in called:
            inputs = [v for v in graph.inputs if v.dtype is f32]
            done += [inserter.round_activation("input_quant", v) for v in inputs if inserter.wants(v, v.name)]
        places = [(rule, list(rule.places(graph))) for rule in RULES]  # matched before any insertion
        for rule, found in places:
            done += inserter.insert(rule, found)
        done += inserter.insert(INTERMEDIATE, INTERMEDIATE.places(graph))
    return done


class _Inserter:
    """Inserts FAKE_QUANT operators into one graph; ``index``: its index in the model."""

    def __init__(self, graph: Graph, calibration: Calibration, index: int, options: FakeQuantOptions) -> None:
        self.graph, self.calibration, self.index, self.options = graph, calibration, index, options

    def wants(self, value: Value, name: str) -> bool:
        """Return whether to round ``value``: it is not rounded yet, and ``name`` is in the scope."""
        return re.search(self.options.scope or "", name) is not None and not has_rounding(value)

    def insert(self, rule: InsertionRule, places: Iterable[tuple[Value, Op]]) -> Iterator[Inserted]:
        """Round the values at ``places`` that ``wants`` accepts; yield what was inserted.

        ``places``: pairs (value to round, first operator of the match of ``rule``).  If the value is the
        weights of a layer, the operator is this layer.
        """
        for value, op in places:
            if not self.wants(value, op.results[0].name if rule.is_weight else value.name):
                continue
            if not rule.is_weight:
                yield self.round_activation(rule.name, value)
            elif self.options.per_channel:
                yield self._round_channels(rule.name, value, op)
            else:
                yield self._round_weights(rule.name, value, op)

    def round_activation(self, rule: str, value: Value) -> Inserted:
        """Insert a FAKE_QUANT after ``value``; raise ModelError without statistics or a finite number."""
        statistics = self.calibration.of(value, self.index)
        if statistics is None:
            raise ModelError(f"%{value.name} has no range: the calibration has no statistics of it")
        try:
            low, high = _activation_range(statistics, self.options)
        except ModelError as error:
            raise ModelError(f"%{value.name} has no range: {error.message}") from None
        bits, narrow = self.options.activation_bits, self.options.narrow_range
        low, high = self._final_range(low, high, bits, narrow)
        op = FakeQuant(value, min=low, max=high, num_bits=bits, narrow_range=narrow)
        self._insert(rule, value, [op])
        return Inserted(rule, value.name, low, high)

    def _round_weights(self, rule: str, value: Value, layer: Op) -> Inserted:
        """Round the weights ``value`` of ``layer`` by a FAKE_QUANT.

        Raise ModelError if a weight is not finite.
        """
        data = finite_numbers(value)
        bits = self.options.weight_bits
        low, high = self._final_range(
            float(data.min(initial=0)), float(data.max(initial=0)), bits, narrow=True
        )
        op = FakeQuant(value, min=low, max=high, num_bits=bits, narrow_range=True)
        self._insert(rule, value, [op], layer)
        return Inserted(rule, value.name, low, high)

    def _final_range(self, low: float, high: float, bits: int, narrow: bool) -> tuple[float, float]:
        """Return the range of a FAKE_QUANT that shall cover [low, high], which includes 0.

        ``bits``, ``narrow``: the attributes of the FAKE_QUANT (see ``_symmetric``).
        """
        low, high = _with_width(low, high)
        if self.options.symmetric:
            low, high = _with_width(*_symmetric(low, high, bits, narrow))
        return low, high

    def _round_channels(self, rule: str, value: Value, layer: Op) -> Inserted:
        """Insert QUANTIZE and DEQUANTIZE, with a scale for each channel, after the weights ``value``.

        The integers go from -(2^(bits - 1) - 1) to 2^(bits - 1) - 1.  ``layer``: the operator that reads the
        weights.  Raise ModelError if a weight is not finite.
        """
        assert layer.quantization_rule is not None  # it has weights
        axis = next(iter(layer.quantization_rule.weights.values())) or 0  # the channel axis of the weights
        others = tuple(i for i in range(value.known_rank) if i != axis)
        largest = np.minimum(np.abs(finite_numbers(value)).max(axis=others, initial=0), MOST_WIDTH)
        steps = 2 ** (self.options.weight_bits - 1) - 1
        scale = np.where(largest >= LEAST_WIDTH, largest / steps, 1).astype(np.float32)
        quantization = Quantization(scale, np.zeros(scale.shape, np.int64), axis)
        quantize = Quantize(value, results=[Value("", i8, value.shape, None, quantization)])
        self._insert(rule, value, [quantize, Dequantize(quantize.output)], layer)
        limit = float(largest.max(initial=0))
        return Inserted(rule, value.name, -limit, limit, scale.size)

    def _insert(self, rule: str, value: Value, ops: list[Op], layer: Op | None = None) -> None:
        """Insert the chain ``ops``, which rounds ``value``; let the users of ``value`` read its result.

        The chain stands directly after the producer of ``value``; for weights, before ``layer`` and all other
        users.  If ``value`` is an output of the graph that an operator produces, the result of the chain
        takes its place and its name.
        """
        users = [(op, index) for op, index in value.uses if op not in ops]
        for op in ops:
            op.output.name = self.graph.unique_name(f"{value.name}/{rule}")
        if layer is not None:
            anchor = self._first([layer, *(op for op, _ in users)])
            for op in ops:
                self.graph.insert_before(anchor, op)
        else:
            last = value.producer
            for op in ops:
                last = self.graph.insert_after(last, op)
        for user, index in users:
            user.set_input(index, ops[-1].output)
        if value in self.graph.outputs and value.producer is not None:
            exact = Value(self.graph.unique_name(f"{value.name}/exact"), value.dtype, value.shape)
            value.producer.take_result(value.result_index, exact)
            ops[0].set_input(0, exact)
            rounded = ops[-1].take_result(0, value)
            self.graph.replace_uses(rounded, value)

    def _first(self, ops: Sequence[Op]) -> Op:
        """Return the operator of ``ops`` that is executed first."""
        wanted = set(ops)
        return next(op for op in self.graph if op in wanted)


def has_rounding(value: Value) -> bool:
    """Return whether ``value`` is rounded already, by its producer or by a user.

    Between ``value`` and a user that rounds it there may be operators whose result has the scale of their
    operand, such as RESHAPE.  Operators before the producer are not examined.
    """
    pending = [value]
    while pending:
        moved = pending.pop()
        if any(isinstance(op, FakeQuant | Quantize) for op in moved.users):
            return True
        pending += [v for op in moved.users if followed_operand(op) is moved for v in op.results]
    return isinstance(value.producer, FakeQuant | Dequantize)


def _activation_range(statistics: TensorStatistics, options: FakeQuantOptions) -> tuple[float, float]:
    """Return the range that contrib.quantize would find for the samples of ``statistics``.

    If a person has edited the range in the calibration file, or if the range was read from a model, that
    range is used.  In all cases the range is extended to include 0, and limited to float32 numbers.
    """
    if options.ema_decay is None:
        low, high = estimate_range(statistics, "min_max")
    else:
        low, high = estimate_range(statistics, "ema", decay=options.ema_decay, start=options.init_range)
    return max(min(low, 0.0), -LARGEST), min(max(high, 0.0), LARGEST)


def _with_width(low: float, high: float) -> tuple[float, float]:
    """Return the range [low, high], which includes 0, with a width that FAKE_QUANT can compute with.

    FAKE_QUANT divides by the width: with an empty range, zeros become NaN or other wrong numbers.  So the
    result is [0, 1] if the range is narrower than LEAST_WIDTH.  If it is wider than MOST_WIDTH, both ends are
    multiplied by the factor that makes it so wide.
    """
    width = high - low
    if width < LEAST_WIDTH:
        return 0.0, 1.0
    return (low, high) if width <= MOST_WIDTH else (low / width * MOST_WIDTH, high / width * MOST_WIDTH)


def _symmetric(low: float, high: float, bits: int, narrow: bool) -> tuple[float, float]:
    """Return the smallest range that includes [low, high] and has 0 in the middle.

    ``low``: at most 0.  ``high``: at least 0.  ``narrow``: the lowest integer is not used, so both ends are
    equally far from 0.  Otherwise there is one step more below 0 than above.
    Source: ``contrib/quantize/python/quant_ops.py``, ``_FakeQuantWithMinMaxVars`` and its callers.
    """
    ratio = -1.0 if narrow else -(2**bits - 2) / 2**bits  # the upper end divided by the lower end
    return min(low, high / ratio), max(high, low * ratio)
