# SPDX-License-Identifier: Apache-2.0
"""Models with state, resources, sparse data and custom operators.

LiteRT and our interpreter run a saved model from the same bytes.  In each run, the outputs must be equal
within the tolerance of ``assert_close``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRT
from ai_edge_litert.interpreter import OpResolverType

from circlekit.interp import Interpreter
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Array
from circlekit.ops.arithmetic.random_ops import RandomUniform
from circlekit.ops.movement.sparse import Densify
from circlekit.ops.program.control import StablehloComposite
from circlekit.ops.recurrent.lstm import UnidirectionalSequenceLstm
from tests.ops.litert import assert_close, const, graph_of, var
from tests.ops.movement.test_sparse import sparse_value
from tests.ops.program.test_control import ATTRIBUTES, squares
from tests.ops.program.test_control import graph as graph_with
from tests.ops.program.test_detection import detector, scene
from tests.ops.program.test_variables import STEPS, counter, table_model
from tests.ops.recurrent.test_lstm import Maker, operands, sequence
from tests.ops.recurrent.test_lstm_integers import integer_lstm

Steps = Sequence[Sequence[Array]]
"""The inputs of each run."""

Case = tuple[Sequence[Graph], Steps]
"""The graphs of a model, and the inputs of each run."""


def float_lstm() -> Case:
    steps = sequence(3, 4, 3, 5)
    op = UnidirectionalSequenceLstm(
        var(steps[0][0]), *operands(Maker(1), frozenset({"peephole"}), 5, 6, 4), act=Activation.TANH
    )
    return [graph_of(op)], steps


def eight_bits() -> Case:
    op = integer_lstm(1, frozenset({"projection", "norm"}), 3, UnidirectionalSequenceLstm)
    rng = np.random.default_rng(5)
    return [graph_of(op)], [[rng.integers(-128, 128, (3, 4, 5)).astype(np.int8)] for _ in range(3)]


def variables() -> Case:
    return counter(), STEPS


def tables() -> Case:
    return table_model(to_strings=True), [[], []]


def sparse() -> Case:
    return [graph_of(Densify(sparse_value()))], [[]]


def detections() -> Case:
    codes, likely, anchors = scene(5)
    op = detector([var(codes), var(likely), const(anchors)], use_regular_nms=True)
    return [graph_of(op)], [[codes, likely]]


def composite() -> Case:
    x, callee = squares()
    main = graph_with("main", [x], StablehloComposite(x, decomposition=callee, **ATTRIBUTES))
    return [main, callee], [[np.array([3, -5, 2], np.float32)]]


def random() -> Case:
    return [graph_of(RandomUniform(const([7], np.int32), seed=3))], [[], [], []]


CASES = [float_lstm, eight_bits, variables, tables, sparse, detections, composite, random]


def litert_runs(data: bytes, steps: Steps) -> list[list[Array]]:
    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = LiteRT(model_content=data, experimental_op_resolver_type=resolver, num_threads=1)
    interpreter.allocate_tensors()
    outs = []
    for inputs in steps:
        for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        outs.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
    return outs


@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)
def test_a_saved_model_runs_as_in_litert(case: Callable[[], Case]) -> None:
    graphs, steps = case()
    data = to_bytes(Model(list(graphs)), "tflite")
    model = load_bytes(data)
    assert kinds(model.graphs) == kinds(graphs)
    interpreter = Interpreter(model)
    for wanted, inputs in zip(litert_runs(data, steps), steps, strict=True):
        for got, right in zip(interpreter.run(inputs), wanted, strict=True):
            if right.dtype == object:
                assert got.tolist() == right.tolist()
            else:
                assert_close(got, right)


def kinds(graphs: Sequence[Graph]) -> list[list[tuple[type[Op], str | None]]]:
    return [[(type(op), op.custom_code if isinstance(op, OpaqueOp) else None) for op in g] for g in graphs]
