# SPDX-License-Identifier: Apache-2.0
"""Resource variables and hash tables against LiteRT, over several runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import CirclekitError, ModelError, ShapeError, UnsupportedError
from circlekit.interp.graph_runner import GraphRunner
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import DType, f32, i8, i16, i64
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.binary import Add
from circlekit.ops.constant_operands import encode_strings
from circlekit.ops.program.control import CallOnce
from circlekit.ops.program.state import (
    AssignVariable,
    Hashtable,
    HashtableFind,
    HashtableImport,
    HashtableSize,
    ReadVariable,
    State,
    VarHandle,
)
from tests.ops.litert import const, run_steps
from tests.ops.stateful import check_runs


def named(graph: Graph) -> Graph:
    for number, op in enumerate(graph):
        for value in (*op.inputs, *op.results):
            if value is not None and not value.name:
                value.name = f"{graph.name}_{op.code}_{number}"
    return graph


def graph(name: str, inputs: list[Value], *ops: Op, outputs: list[Value]) -> Graph:
    made = Graph(name, tuple(inputs))
    for op in ops:
        made.append(op)
    made.outputs = outputs
    return named(made)


def counter() -> tuple[Graph, Graph]:
    """Return graphs with a variable that starts at [10, 20] and grows by the input in every run."""
    start = VarHandle(shared_name="sum")
    init = graph("init", [], start, AssignVariable(start.output, const([10, 20], np.float32)), outputs=[])
    x = Value("x", f32, (2,))
    handle, other = VarHandle(shared_name="sum"), VarHandle(shared_name="other", container="box")
    read = ReadVariable(handle.output, results=[Value("old", f32, (2,))])
    total = Add(read.output, x)
    assign = AssignVariable(handle.output, total.output)
    again = ReadVariable(handle.output, results=[Value("new", f32, (2,))])
    ops: list[Op] = [CallOnce(init=init), handle, other, read, total, assign, again]
    return graph("main", [x], *ops, outputs=[read.output, again.output]), init


STEPS: list[list[Array]] = [[np.array(x, np.float32)] for x in ([1, 2], [3, 4], [-5, 6])]


def test_a_variable_outlives_the_run() -> None:
    results = check_runs(counter(), STEPS)
    np.testing.assert_array_equal(results[2][1], [9, 32])


def test_interpreters_do_not_share_state_and_can_be_reset() -> None:
    model = Model(list(counter()))
    first, second = Interpreter(model), Interpreter(model)
    before = first.run(STEPS[0])
    np.testing.assert_array_equal(second.run(STEPS[0])[1], before[1])
    assert not np.array_equal(first.run(STEPS[0])[1], before[1])
    first.reset()
    np.testing.assert_array_equal(first.run(STEPS[0])[1], before[1])


def test_reading_an_unassigned_variable_is_an_error() -> None:
    handle = VarHandle(shared_name="x")
    read = ReadVariable(handle.output, results=[Value("y", f32, (2,))])
    main = graph("main", [], handle, read, outputs=[read.output])
    with pytest.raises(ModelError, match="expected a variable with an assigned value, got none"):
        Interpreter(Model([main])).run([])


@pytest.mark.parametrize(
    "wrong", [np.array([1.0], np.float32), np.array([0, 1], np.int32)], ids=["float", "two"]
)
def test_a_handle_is_one_integer(wrong: Array) -> None:
    op = ReadVariable(VarHandle(shared_name="x").output, results=[Value("y", f32, (2,))])
    with pytest.raises(ModelError, match="READ_VARIABLE: expected a handle, one integer, got"):
        op.call(GraphRunner(State()), wrong)


def test_a_variable_does_not_change_with_an_output() -> None:
    x, (handle, read) = Value("x", f32, (2,)), reading()
    main = graph("main", [x], handle, AssignVariable(handle.output, x), read, outputs=[read.output])
    again, last = reading()
    reader = graph("reader", [], again, last, outputs=[last.output])
    interpreter = Interpreter(Model([main, reader]))
    interpreter.run([np.array([1, 2], np.float32)])[0][:] = 9
    np.testing.assert_array_equal(interpreter.run([], graph=1)[0], [1, 2])


def reading() -> tuple[VarHandle, ReadVariable]:
    handle = VarHandle(shared_name="x")
    return handle, ReadVariable(handle.output, results=[Value("y", f32, (2,))])


# -- hash tables -------------------------------------------------------------------------------


def strings(*texts: bytes) -> Value:
    return Value("", DType.STRING, (len(texts),), encode_strings(texts))


def numbers(*items: int) -> Value:
    return const(items, np.int64)


def table_model(to_strings: bool) -> tuple[Graph, Graph]:
    sides = (strings(b"one", b"two", b"one"), numbers(1, 2, 9))
    default: Value = strings(b"none") if to_strings else numbers(-1)
    keys, values = reversed(sides) if to_strings else sides
    types: dict[str, Any] = {"key_dtype": keys.dtype, "value_dtype": values.dtype}
    made = Hashtable(table_id=3, **types)
    init = graph("init", [], made, HashtableImport(made.output, keys, values), outputs=[])
    used = Hashtable(table_id=3, **types)
    wanted = numbers(2, 7, 1) if to_strings else strings(b"two", b"seven", b"one")
    find, size = HashtableFind(used.output, wanted, default), HashtableSize(used.output)
    ops: list[Op] = [CallOnce(init=init), used, find, size]
    return graph("main", [], *ops, outputs=[find.output, size.output]), init


@pytest.mark.parametrize("to_strings", [False, True])
def test_tables_equal_those_of_litert(to_strings: bool) -> None:
    graphs = table_model(to_strings)
    (wanted,) = run_steps(graphs, [[]])
    got = Interpreter(Model(list(graphs))).run([])
    assert [x.tolist() for x in got] == [x.tolist() for x in wanted]
    assert got[1].dtype == np.int64


def test_tables_without_content_or_with_wrong_types_are_refused() -> None:
    used = Hashtable(table_id=1, key_dtype=i64, value_dtype=DType.STRING)
    find = HashtableFind(used.output, numbers(1), strings(b""))
    main = graph("main", [], used, find, outputs=[find.output])
    with pytest.raises(CirclekitError, match="the table is used before HASHTABLE_IMPORT fills it"):
        Interpreter(Model([main])).run([])
    with pytest.raises(ShapeError, match="HASHTABLE: expected i64 to str or str to i64, got f32 to i64"):
        Hashtable(key_dtype=f32, value_dtype=i64)


def test_a_table_may_be_filled_with_no_entries_and_is_filled_only_once() -> None:
    made = Hashtable(table_id=3, key_dtype=i64, value_dtype=DType.STRING)
    entries = ((numbers(), strings()), (numbers(7), strings(b"seven")))
    fills = [HashtableImport(made.output, *pair) for pair in entries]
    used = Hashtable(table_id=3, key_dtype=i64, value_dtype=DType.STRING)
    find, size = HashtableFind(used.output, numbers(2, 7), strings(b"none")), HashtableSize(used.output)
    init = graph("init", [], made, *fills, outputs=[])
    ops: list[Op] = [CallOnce(init=init), used, find, size]
    graphs = graph("main", [], *ops, outputs=[find.output, size.output]), init
    assert [x.tolist() for x in Interpreter(Model(list(graphs))).run([])] == [[b"none"] * 2, [0]]


def test_a_table_needs_a_value_for_each_key() -> None:
    made = Hashtable(table_id=3, key_dtype=i64, value_dtype=DType.STRING)
    fill = HashtableImport(made.output, numbers(1, 2), strings(b"one"))
    with pytest.raises(ModelError, match="expected a value for each key, got 2 keys and 1 value"):
        Interpreter(Model([graph("main", [], made, fill, outputs=[made.output])])).run([])


def test_a_table_that_no_operator_creates_is_refused() -> None:
    op = HashtableSize(Hashtable(table_id=1, key_dtype=i64, value_dtype=DType.STRING).output)
    with pytest.raises(ModelError, match="HASHTABLE_SIZE: table 2 is used before HASHTABLE creates it"):
        op.call(GraphRunner(State()), np.array([2], np.int32))


# -- variables ---------------------------------------------------------------------------------


def test_handles_are_numbered_by_container_and_name() -> None:
    run = GraphRunner(State())
    names = [("", "a"), ("", "b"), ("box", "a"), (None, "a")]
    handles = [VarHandle(container=c, shared_name=n).call(run)[0].tolist() for c, n in names]
    assert handles == [[0], [1], [2], [0]]
    declared = VarHandle(shared_name="b", results=[Value("h", DType.RESOURCE, ())])
    assert declared.call(run)[0].shape == ()
    assert declared.inferred()[0].shape == ()
    assert VarHandle(shared_name="b").output.shape == (1,)


def test_a_variable_tensor_starts_with_zeros() -> None:
    """A tensor of int8 starts with its zero point."""
    state, zero = State(), Quantization.per_tensor(0.5, 3)
    assert state.read(Value("x", i8, (2,), None, zero)).tolist() == [3, 3]
    assert state.read(Value("x", i16, (2,), None, zero)).tolist() == [0, 0]
    value = Value("x", f32, (2, 1))
    with pytest.raises(ValueError, match="read-only"):
        state.read(value)[:] = 1
    assert state.read(value).tolist() == [[0], [0]]
    with pytest.raises(UnsupportedError, match="variable %x: no kernel for dtype i4"):
        state.read(Value("x", DType.INT4, (2,)))


def test_a_variable_tensor_asks_for_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr("circlekit.ops.program.state.need_memory", lambda size, what: sizes.append(size))
    State().read(Value("x", f32, (2, 3)))
    assert sizes == [2 * 3 * 4]


def test_state_needs_an_interpreter() -> None:
    with pytest.raises(UnsupportedError, match="VAR_HANDLE keeps state"):
        VarHandle(shared_name="x").call(lambda graph, inputs: [])


def test_a_read_variable_has_a_declared_type() -> None:
    with pytest.raises(UnsupportedError, match="READ_VARIABLE: expected a declared result"):
        ReadVariable(VarHandle(shared_name="x").output)
