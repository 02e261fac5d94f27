# SPDX-License-Identifier: Apache-2.0
"""Mutants: models that differ in one thing from a model that a pass rewrites."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import f32, i8, i32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.value import Quantization, Value
from circlekit.ir.verifier import verify
from circlekit.ops.arithmetic.unary import Neg

Change = Callable[[Model], None]


def mutants(model: Model) -> Iterator[tuple[str, Model]]:
    """Yield (description of the change, model) for every single change that leaves a valid model."""
    for what, change in _changes(model):
        copy = clone(model)
        try:
            change(copy)
            if verify(copy):
                continue
            check_shapes(copy)
        except CirclekitError:
            continue
        yield what, copy


def _changes(model: Model) -> Iterator[tuple[str, Change]]:
    yield "the batch is unknown", _unknown(lambda shape: (None, *shape[1:]))
    yield "the channels are unknown", _unknown(lambda shape: (*shape[:-1], None))
    yield "the ranks are unknown", _unknown(lambda shape: None)
    for number, value in enumerate(model.main.values()):
        if not value.is_const and value.shape:
            yield f"the rank of %{value.name} is not stated", _rank_not_stated(number)
    yield "numbers are i32", _whole_numbers
    yield "values are quantized", _quantized(0.0)
    yield "values are quantized with different scales", _quantized(0.01)
    yield "values are quantized per channel", _quantized_per_channel
    for number, op in enumerate(model.main):
        if len(op.inputs) == 2:
            yield f"the operands of %{op.output.name} change places", _swapped(number)
        for index, value in enumerate(op.results):
            if not model.main.is_output(value):
                yield f"%{value.name} is an output", _output(number, index)
            if value.dtype is f32 and value.quantization is None:
                yield f"%{value.name} has another user", _user(number, index)
            yield f"%{value.name} has another user without results", _user_without_results(number, index)
        for index, operand in enumerate(op.inputs):
            if operand is None or not operand.is_plain or operand.is_variable:
                continue
            yield f"%{operand.name} is an input", _input(number, index)
            if operand.dtype is f32 and operand.numel:
                yield f"%{operand.name} has another number", _number(number, index)
                yield f"%{operand.name} has another rank", _rank(number, index)
            elif operand.dtype.is_integer and operand.numel:
                yield f"%{operand.name} has another first number", _step(number, index, 0)
                yield f"%{operand.name} has another last number", _step(number, index, -1)
        for name, value in op.attribute_items().items():
            if isinstance(value, Activation):
                other = Activation.RELU6 if value is Activation.NONE else Activation.NONE
                yield f"%{op.output.name} has the activation {other.name}", _attribute(number, name, other)
            elif isinstance(value, bool):
                yield f"%{op.output.name} has {name} {not value}", _attribute(number, name, not value)
            elif type(value) is int:
                yield f"%{op.output.name} has {name} {value + 1}", _attribute(number, name, value + 1)


def _op(model: Model, number: int) -> Op:
    return model.main.ops[number]


def _operand(model: Model, number: int, index: int) -> Value:
    value = _op(model, number).inputs[index]
    assert value is not None
    return value


def _output(number: int, index: int) -> Change:
    def change(model: Model) -> None:
        model.main.outputs = (*model.main.outputs, _op(model, number).results[index])

    return change


def _user(number: int, index: int) -> Change:
    def change(model: Model) -> None:
        user = Neg(_op(model, number).results[index])
        user.output.name = "another_user"
        model.main.append(user)
        model.main.outputs = (*model.main.outputs, user.output)

    return change


def _user_without_results(number: int, index: int) -> Change:
    def change(model: Model) -> None:
        user = OpaqueOp(
            _op(model, number).results[index], code="CUSTOM", custom_code="FlexAssert", results=[]
        )
        model.main.append(user)

    return change


def _input(number: int, index: int) -> Change:
    def change(model: Model) -> None:
        value = _operand(model, number, index)
        value.data = None
        model.main.inputs = (*model.main.inputs, value)

    return change


def _number(number: int, index: int) -> Change:
    """Change the first element of a constant, for this operator only."""

    def change(model: Model) -> None:
        value = _operand(model, number, index)
        data = value.array().copy()
        with np.errstate(over="ignore"):
            data.reshape(-1)[0] = data.reshape(-1)[0] * 2 + 0.5
        twin = Value.constant(f"{value.name}_other", data, value.quantization)
        _op(model, number).set_input(index, twin)

    return change


def _rank(number: int, index: int) -> Change:
    """Add a leading dimension of 1."""

    def change(model: Model) -> None:
        value = _operand(model, number, index)
        data = np.ascontiguousarray(value.array()[None])
        _op(model, number).set_input(index, Value.constant(f"{value.name}_wide", data, value.quantization))

    return change


def _attribute(number: int, name: str, value: object) -> Change:
    def change(model: Model) -> None:
        op = _op(model, number)
        setattr(op, name, value)
        op.version = None

    return change


def _step(number: int, index: int, place: int) -> Change:
    """Add 1 to the element of a constant at ``place``, for this operator only."""

    def change(model: Model) -> None:
        value = _operand(model, number, index)
        data = value.array().copy()
        data.reshape(-1)[place:][:1] += 1
        twin = Value.constant(f"{value.name}_other", data, value.quantization)
        _op(model, number).set_input(index, twin)

    return change


def _swapped(number: int) -> Change:
    def change(model: Model) -> None:
        op = _op(model, number)
        first, second = op.inputs
        op.set_input(0, second)
        op.set_input(1, first)
        _infer(model)

    return change


def _unknown(forget: Callable[[tuple[int | None, ...]], tuple[int | None, ...] | None]) -> Change:
    """Make dimensions of every input unknown, then infer the shapes of all results again."""

    def change(model: Model) -> None:
        for graph_input in model.main.inputs:
            if graph_input.shape and 0 not in graph_input.shape:  # shapes with a 0 stay
                graph_input.shape = forget(graph_input.shape)
        _infer(model)

    return change


def _rank_not_stated(number: int) -> Change:
    """Remove the shape of one value.  Later values keep their shapes, although they could not be inferred."""

    def change(model: Model) -> None:
        list(model.main.values())[number].shape = None

    return change


def _whole_numbers(model: Model) -> None:
    """Make every f32 an i32."""
    for value in model.main.values():
        if value.dtype is f32:
            value.dtype = i32
            if value.is_const:
                value.data = np.asarray(np.clip(np.nan_to_num(value.array()), -(2**30), 2**30), np.int32)


def _quantized(step: float) -> Change:
    """Make every f32 an i8; value number n of the graph gets the scale 0.05 + ``step`` * n."""

    def change(model: Model) -> None:
        for number, value in enumerate(model.main.values()):
            if value.dtype is f32:
                scale = np.float32(0.05 + step * number)
                value.dtype, value.quantization = i8, Quantization(scale.reshape(1), np.array([3]))
                if value.is_const:
                    data = np.clip(
                        np.round(np.clip(np.nan_to_num(value.array()), -100, 100) / scale) + 3, -128, 127
                    )
                    value.data = np.asarray(data, np.int8)

    return change


def _quantized_per_channel(model: Model) -> None:
    """Quantize as ``_quantized`` does, but give each index of the last axis of a value a scale of its own."""
    _quantized(0.0)(model)
    for value in model.main.values():
        if value.dtype is i8 and value.shape and value.shape[-1]:
            scale = np.linspace(0.02, 0.08, value.shape[-1], dtype=np.float32)
            zeros = np.zeros(scale.size, np.int64)
            value.quantization = Quantization(scale, zeros, len(value.shape) - 1)


def _infer(model: Model) -> None:
    for op in model.main:
        for value, inferred in zip(op.results, op.inferred(), strict=True):
            value.shape = inferred.shape
