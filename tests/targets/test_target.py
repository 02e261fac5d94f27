# SPDX-License-Identifier: Apache-2.0
"""What a target refuses, and the sentence for each constraint of a table."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from circlekit.errors import UnsupportedError
from circlekit.io.schema import enumeration
from circlekit.ir.dtypes import DType, f32, i8
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.binary import Add, Sub
from circlekit.ops.convolution.pool import MaxPool2D
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.gather import ReverseV2
from circlekit.targets.constraints import KINDS, obstacles
from circlekit.targets.target import DEFAULT_TARGETS, TABLES, Target, _distance, find_target, target_names


def target(form: str = "f32,f32:f32", custom: str = "", **constraints: Any) -> Target:
    """Return a target that has ADD up to version 3 in one form, and MUL in any form.

    ``custom``: a custom operator that it has.  ``constraints``: those of the form of ADD.
    """
    operators: dict[str, Any] = {
        "ADD": {"version": 3, "forms": {form: constraints}},
        "MUL": {"version": None, "forms": "any"},
    }
    return Target("device", "Device", "1", "a test", frozenset({"tflite"}), operators, frozenset({custom}))


def quantized(name: str, scale: float = 0.5, zero_point: int = 0) -> Value:
    return Value(name, i8, (2,), None, Quantization.per_tensor(scale, zero_point))


def add(*shapes: tuple[int | None, ...], **attributes: Any) -> Add:
    """Return an Add of two float values of ``shapes``; the result has the first shape."""
    lhs, rhs = (Value("xy"[i], f32, shape) for i, shape in enumerate(shapes))
    return Add(lhs, rhs, results=[Value("z", f32, shapes[0])], **attributes)


def test_what_runs_has_no_refusal() -> None:
    assert target().refusal(add((2,), (2,))) is None
    assert target().wanted_change(add((2,), (2,))) == ""


def test_an_operator_that_is_not_there() -> None:
    x = Value("x", f32, (2,))
    sub = Sub(x, x, results=[Value("z", f32, (2,))])
    assert target().refusal(sub) == "Device has no SUB"


def test_a_form_that_is_not_there() -> None:
    op = Add(quantized("x"), quantized("y"), results=[quantized("z")])
    assert target().refusal(op) == "Device has no ADD for i8q,i8q:i8q; it has f32,f32:f32"


def test_versions() -> None:
    op = add((2,), (2,))
    op.version = 4
    assert target().refusal(op) == "Device has ADD up to version 3, got version 4"


def test_operators_that_are_not_as_declared() -> None:
    x, z = Value("x", f32, (2,)), Value("z", f32, (2,))
    op = OpaqueOp(x, x, code="ADD", results=[z])
    op.extra["misfit"] = "fused_activation_function cannot be 9"
    declaration = "which does not fit its declaration: fused_activation_function cannot be 9"
    assert (
        target(values={"act": ["NONE"]}).refusal(op) == f"Device perhaps cannot run this ADD, {declaration}"
    )
    assert target().wanted_change(op) == "a usual ADD"


def test_custom_operators() -> None:
    op = OpaqueOp(code="CUSTOM", results=(), custom_code="Flex")
    assert target().refusal(op) == "Device has no custom Flex"
    assert target(custom="Flex").refusal(op) is None


def constant(op: Op, index: int) -> Op:
    """Make operand ``index`` of ``op`` a constant, and return ``op``."""
    value = op.inputs[index]
    assert value is not None
    value.data = np.ones(value.static_shape, np.float32)
    return op


ENTRY_KEYS = {"version", "forms", "source", "ignores", "strict", "constraints"}

SUM = Add(quantized("x", 0.5, 3), quantized("y", 0.25), results=[quantized("z", 0.5)])


@pytest.mark.parametrize(
    ("constraints", "good", "bad", "expected"),
    [
        ({"rank": 2}, add((2, 3), (3,)), add((1, 2, 3), (3,)), "ranks up to 2, got rank 3"),
        (
            {"broadcast_rank": 1},
            add((1, 2, 3), (1, 2, 3)),
            add((2, 3), (3,)),
            "operands of equal shapes, or of ranks up to 1, got rank 2",
        ),
        ({"ranks": {"lhs": [1, 2]}}, add((2, 3), (3,)), add((), (3,)), "lhs of rank 1 or 2, got 0"),
        (
            {"elements": {"rhs": 2}},
            add((2, 3), (2, 1)),
            add((2, 3), (3,)),
            "rhs of at most 2 elements, got 3",
        ),
        ({"nonempty": ["rhs"]}, add((0,), (2,)), add((2,), (2, 0)), "elements in rhs, got none"),
        ({"known": ["rhs"]}, add((None,), (2,)), add((2,), (None,)), "a known shape of rhs, got [?]"),
        (
            {"same_shape": [["lhs", "rhs"]]},
            add((2, 3), (2, 3)),
            add((2, 3), (3,)),
            "the same shape of lhs and rhs, got [2,3] and [3]",
        ),
        (
            {"dims": [["rhs", 0, 3], ["rhs", 1, 2]]},
            add((2, 3), (3,)),
            add((2, 3), (2, 3)),
            "3 along axis 0 of rhs, got 2",
        ),
        (
            {"same_dims": [["lhs", -1, "rhs", 0]]},
            add((2, 3), (3,)),
            add((2, 3), (1,)),
            "axis -1 of lhs as long as axis 0 of rhs, got 3 and 1",
        ),
        (
            {"any_of": [[{"rank": 1}, {"same_shape": [["lhs", "rhs"]]}]]},
            add((2, 3), (2, 3)),
            add((2, 3), (3,)),
            "ranks up to 1, got rank 2; or the same shape of lhs and rhs, got [2,3] and [3]",
        ),
        ({"constant": ["rhs"]}, constant(add((2,), (2,)), 1), add((2,), (2,)), "a constant rhs"),
        ({"computed": ["rhs"]}, add((2,), (2,)), constant(add((2,), (2,)), 1), "rhs that is not constant"),
        (
            {"values": {"act": ["NONE", "RELU"]}},
            add((2,), (2,), act=Activation.RELU),
            add((2,), (2,), act=Activation.RELU6),
            "act of NONE, RELU, got RELU6",
        ),
    ],
)
def test_constraints(constraints: dict[str, Any], good: Op, bad: Op, expected: str) -> None:
    device = target(**constraints)
    assert device.refusal(good) is None
    assert device.refusal(bad) == f"Device has ADD for f32,f32:f32 only with {expected}"


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ({"symmetric": ["lhs"]}, "zero point 0 of lhs, got [3]"),
        ({"same_scale": [["lhs", "output"]]}, "the same scale and zero point of lhs and output"),
        ({"scale": {"output": [0.25, 0]}}, "scale 0.25 and zero point 0 of output"),
        ({"scale": {"output": [0.499, 0, 0.01]}}, None),
        ({"scale": {"output": [0.499, 0, 0.001]}}, "scale 0.499 and zero point 0 of output"),
        ({"scale": {"output": [None, 0]}}, None),
        ({"scale": {"output": [None, 3]}}, "any scale and zero point 3 of output"),
        ({"symmetric": ["rhs"], "scale": {"output": [0.5, 0]}}, None),
        ({"scale_ratio": [[["lhs"], "output", 1, 2]]}, None),
        (
            {"scale_ratio": [[["lhs", "rhs"], "output", 0.5, 2]]},
            "a ratio of scales, lhs times rhs over output, from 0.5 to 2, got 0.25",
        ),
    ],
)
def test_constraints_on_quantization(constraints: dict[str, Any], expected: str | None) -> None:
    wanted = None if expected is None else f"Device has ADD for i8q,i8q:i8q only with {expected}"
    assert target("i8q,i8q:i8q", **constraints).refusal(SUM) == wanted


def test_a_scale_that_is_no_number_is_not_near_a_scale() -> None:
    broken = Add(quantized("x", 0.5), quantized("y", 0.25), results=[quantized("z", np.nan)])
    (found,) = obstacles(broken, {"scale": {"output": [0.5, 0, 0.001]}})
    assert found == "scale 0.5 and zero point 0 of output"


def test_numbers_that_a_constant_may_hold() -> None:
    x, y = Value("x", f32, (2, 3)), Value("y", f32, (2, 3))
    axes = [Value.constant("axis", np.array([axis], np.int32)) for axis in (0, 1)]
    found = [list(obstacles(ReverseV2(x, axis, results=[y]), {"numbers": {"axis": [0]}})) for axis in axes]
    assert found == [[], ["axis of 0, got 1"]]


def test_lowest_number_that_a_constant_may_hold() -> None:
    x, y = Value("x", f32, (2, 3)), Value("y", f32, (2, 3))
    axes = [Value.constant("axis", np.array([axis], np.int32)) for axis in (0, -1)]
    found = [list(obstacles(ReverseV2(x, axis, results=[y]), {"lowest": {"axis": 0}})) for axis in axes]
    assert found == [[], ["axis of numbers from 0 on, got -1"]]


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ({"range": {"stride_h": [1, None], "stride_w": [None, 3]}}, []),
        ({"range": {"stride_h": [3, None]}}, ["stride_h of at least 3, got 2"]),
        ({"range": {"stride_w": [None, 2]}}, ["stride_w of at most 2, got 3"]),
        ({"at_most": [["stride_h", "filter_height"], ["stride_w", ["input", 2]]]}, []),
        ({"at_most": [["stride_w", "filter_width"]]}, ["stride_w of at most filter_width, 2, got 3"]),
        (
            {"at_most": [[["input", 2], ["output", 2]]]},
            ["axis 2 of input of at most axis 2 of output, 2, got 6"],
        ),
    ],
)
def test_constraints_on_sizes(constraints: dict[str, Any], expected: list[str]) -> None:
    x, y = Value("x", f32, (1, 4, 6, 3)), Value("y", f32, (1, 2, 2, 3))
    op = MaxPool2D(x, stride_h=2, stride_w=3, filter_height=2, filter_width=2, results=[y])
    assert list(obstacles(op, constraints)) == expected


def test_axes_that_must_be_consecutive() -> None:
    x, y = Value("x", f32, (1, 2, 3)), Value("y", f32, (1, 2, 3))
    axes = [Value.constant("axes", np.array(content, np.int32)) for content in ([1, -1], [0, -1])]
    found = [list(obstacles(ReverseV2(x, axis, results=[y]), {"consecutive": ["axis"]})) for axis in axes]
    assert found == [[], ["consecutive axis, got 0, 2"]]


def test_absent_operands_that_must_or_must_not_be_written() -> None:
    x, w, y = Value("x", f32, (1, 4)), Value("w", f32, (3, 4)), Value("y", f32, (1, 3))
    written, left_out = FullyConnected(x, w, None, results=[y]), FullyConnected(x, w, results=[y])
    assert not list(obstacles(written, {"operands": [3, None]}))
    assert list(obstacles(left_out, {"operands": [3, None]})) == ["at least 3 operands, got 2"]
    assert list(obstacles(written, {"operands": [None, 2]})) == ["at most 2 operands, got 3"]


def test_unknown_shapes_count_as_supported() -> None:
    op = Add(Value("x", f32, None), Value("y", f32, (2,)), results=[Value("z", f32, None)])
    assert target(rank=1, broadcast_rank=1).refusal(op) is None


def test_every_table_can_be_read() -> None:
    """Each operator is in the schema, each form is "operands:results", each kind of constraint is known."""
    schema = enumeration("BuiltinOperator", "circle").numbers
    types = {f"{d.short}{q}" for d in DType for q in ("", "q", "qc", "qb", "s")} | {"-", ""}
    for name in target_names():
        found = find_target(name)
        assert found.name == name
        for code, entry in {**found.operators, **found.delegated}.items():
            assert code in schema, (name, code)
            assert {"version", "forms"} <= entry.keys() <= ENTRY_KEYS, code
            assert entry.get("constraints", {}).keys() <= KINDS.keys(), (name, code)
            assert entry["forms"] == "any" or "constraints" not in entry, (name, code)
            for kind, forms in entry.get("strict", {}).items():
                assert kind in KINDS, (name, code)
                assert forms == "any" or {*forms} <= entry["forms"].keys(), (name, code)
            for form, constraints in () if entry["forms"] == "any" else entry["forms"].items():
                operands, _, results = form.partition(":")
                assert {*operands.split(","), *results.split(",")} <= types, (name, code, form)
                assert constraints.keys() <= {*KINDS, "source"}, (name, code, form)


def test_default_targets_are_of_their_format() -> None:
    for format, name in DEFAULT_TARGETS.items():
        assert format in find_target(name).formats


def test_an_unknown_target() -> None:
    with pytest.raises(UnsupportedError, match="no target is named abacus"):
        find_target("abacus")


@pytest.mark.parametrize("name", target_names())
def test_what_a_table_omits_has_the_default(name: str) -> None:
    keys = {"run_bytes": "run_bytes", "input_dtypes": "input_dtypes", "complete": "is_complete"}
    table = json.loads((TABLES / f"{name.replace('-', '_')}.json").read_text())
    found, defaults = find_target(name), target()
    for key, attribute in keys.items():
        if key not in table:
            assert getattr(found, attribute) == getattr(defaults, attribute), key
    if table.get("input_dtypes"):
        assert found.input_dtypes == frozenset(table["input_dtypes"])


@pytest.mark.parametrize(
    ("form", "other", "distance"),
    [
        ("f32,f32:f32", "f32,f32:f32", 0),
        ("i8,f32:f32", "f32,f32:f32", 1),
        ("f32:f32", "f32,f32:f32", 1),
        ("f32,f32:f32", "f32:f32", 1),
        ("i8:i8", "f32,f32:f32", 3),
    ],
)
def test_the_distance_of_forms(form: str, other: str, distance: int) -> None:
    assert _distance(form, other) == distance


def test_the_wanted_change_leaves_out_what_the_operator_has() -> None:
    op = add((2, 3), (3,))
    device = target(any_of=[[{"rank": 1}, {"same_shape": [["lhs", "rhs"]]}]])
    refusal, change = device.refusal(op), device.wanted_change(op)
    assert refusal is not None
    assert ", got " in refusal
    assert change.startswith("ADD with ")
    assert ", got " not in change
    assert change == "ADD with ranks up to 1; or the same shape of lhs and rhs"
    assert device.wanted_change(add((1,), (1,))) == ""
