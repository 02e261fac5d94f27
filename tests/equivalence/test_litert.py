# SPDX-License-Identifier: Apache-2.0
"""LiteRT as an oracle: outputs, differences, and models that it refuses or that take too long."""

from __future__ import annotations

import os

import numpy as np
import pytest

import circlekit
from circlekit.equivalence import litert
from circlekit.equivalence.litert import (
    accepted_files,
    differences,
    run_litert,
    run_litert_forked,
    tflite_of,
)
from circlekit.errors import EquivalenceError, UnsupportedError
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels

needs_litert = pytest.mark.skipif(not litert.is_available(), reason="LiteRT is not installed")
RELU = parse_model("graph main(%x: f32[?,2]) -> %y { %y = Relu(%x) }")
X = np.array([[-1, 2]], np.float32)


@pytest.mark.parametrize(
    ("ours", "theirs", "tolerance", "sentence"),
    [  # without a tolerance: 1e-5 of the largest magnitude, here 0.01
        ([1.0, 1000.0], [1.0, 1000.0], None, ""),
        ([1.009, 1000.0], [1.0, 1000.0], None, ""),
        ([1.011, 1000.0], [1.0, 1000.0], None, "%y, LiteRT's and ours: [0]: 1.0 and 1.011"),
        ([1.011, 1000.0], [1.0, 1000.0], 1e-3, ""),
        ([1.0, np.inf], [1.0, np.inf], None, ""),
        ([np.nan], [np.nan], None, ""),
        ([[1.0]], [1.0], None, "%y, LiteRT's and ours: shapes [1] and [1,1] differ"),
    ],
)
def test_differences_beyond_the_tolerance_are_found(
    ours: list[float], theirs: list[float], tolerance: float | None, sentence: str
) -> None:
    arrays = (np.array(ours, np.float32), np.array(theirs, np.float32))
    found = differences(["y"], [arrays[0]], [arrays[1]], tolerance)
    assert len(found) == bool(sentence)
    assert "".join(found).startswith(sentence)


def test_differences_of_integers_and_texts() -> None:
    whole: list[Array] = [np.array([1000], np.int32), np.array([1001], np.int32)]
    assert len(differences(["y"], whole[:1], whole[1:], 0.5)) == 1
    texts: list[Array] = [np.array([b"a"], object), np.array([b"b"], object)]
    assert differences(["y"], texts[:1], texts[:1]) == []
    found = differences(["y"], texts[:1], texts[1:])
    assert found[0].startswith("%y, LiteRT's and ours: [0]: b'b' and b'a' differ")
    assert differences(["y"], texts[:1], [np.array([b"a"])]) == []
    found = differences(["y"], [X.astype("i4")], [X])
    assert found == ["%y, LiteRT's and ours: dtypes float32 and int32 differ"]
    for ours, theirs in ((texts[:1], [X[0, :1]]), ([X[0, :1]], texts[:1])):
        (sentence,) = differences(["y"], ours, theirs)
        assert sentence.endswith("differ")
        assert "dtypes" in sentence


def test_litert_is_available_if_it_is_installed() -> None:
    pytest.importorskip("ai_edge_litert")
    assert litert.is_available()


@needs_litert
def test_only_models_with_defined_results_are_run() -> None:
    assert litert.run_model(RELU, [X])[0].tolist() == [[0.0, 2.0]]
    scalar = parse_model("graph main(%x: f32[], %p: i32[0]) -> %y { %y = Transpose(%x, %p) }")
    with pytest.raises(UnsupportedError, match=r"undefined results for the model: .* got a scalar"):
        litert.run_model(scalar, [np.zeros((), np.float32), np.zeros(0, np.int32)])


@needs_litert
def test_inputs_may_change_their_shape_between_runs() -> None:
    data = tflite_of(RELU)
    assert run_litert(data, [X])[0].tolist() == [[0.0, 2.0]]
    tall = np.repeat(X, 3, axis=0)
    assert [outputs[0].shape for outputs in litert.run_steps(data, [[X], [tall]])] == [(1, 2), (3, 2)]


@needs_litert
def test_models_that_litert_refuses_are_errors() -> None:
    custom = parse_model(
        'graph main(%x: f32[1]) -> %y { %y = Opaque(%x) {code: "CUSTOM", custom_code: "No"} : f32[1] }'
    )
    with pytest.raises(UnsupportedError, match=r"LiteRT does not support the model: .*No"):
        run_litert(tflite_of(custom), [np.zeros(1, np.float32)])
    with pytest.raises(EquivalenceError, match="LiteRT does not accept the model"):
        run_litert(b"TFL3" * 4, [])
    with pytest.raises(EquivalenceError, match="does not accept the model: expected 1 input, got 0"):
        run_litert(tflite_of(RELU), [])


@needs_litert
def test_a_run_in_another_process_gives_outputs_or_an_error() -> None:
    data = tflite_of(RELU)
    assert run_litert_forked(data, [[X]])[0][0].tolist() == [[0.0, 2.0]]
    with pytest.raises(EquivalenceError, match="does not accept the model"):
        run_litert_forked(b"TFL3" * 4, [[X]])
    with pytest.raises(EquivalenceError, match=r"LiteRT takes longer than 0.0 s"):
        run_litert_forked(data, [[X]] * 10_000, seconds=0.0)  # so many that it cannot have answered already


@needs_litert
def test_a_crash_is_an_error_and_no_refusal_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tflite_of(RELU)
    make = litert.make_interpreter

    def crash(content: bytes, kernels: Kernels) -> object:
        return os.abort() if content == b"crash" else make(content, kernels)

    monkeypatch.setattr(litert, "make_interpreter", crash)
    with pytest.raises(EquivalenceError, match=r"LiteRT crashes on the model \(exit code -6\)"):
        run_litert_forked(b"crash", [[X]])
    assert accepted_files([data, b"\0" * 64, b"crash", data, b"crash"]) == [True, False, True, True, True]


class FakeInterpreter:
    """An interpreter with two inputs that notes calls; the output has the shape of the first input."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.shapes = [[2], [3]]

    def get_input_details(self) -> list[dict[str, object]]:
        return [
            {"index": i, "shape": np.array(shape), "dtype": np.float32} for i, shape in enumerate(self.shapes)
        ]

    def get_output_details(self) -> list[dict[str, object]]:
        return self.get_input_details()[:1]

    def resize_tensor_input(self, index: int, shape: tuple[int, ...]) -> None:
        self.shapes[index] = list(shape)
        self.calls.append(("resize", index))

    def allocate_tensors(self) -> None:
        self.calls.append("allocate")

    def set_tensor(self, index: int, array: Array) -> None:
        assert array.flags.c_contiguous

    def invoke(self) -> None:
        self.calls.append("invoke")

    def get_tensor(self, index: int) -> Array:
        return np.ones(self.shapes[index], np.float32)


def test_tensors_are_allocated_only_for_new_shapes() -> None:
    """Allocation resets variables."""
    fake = FakeInterpreter()
    sizes = [(2, 3), (2, 3), (2, 4), (2, 4), (0, 4)]
    outputs = litert.run_interpreter(fake, [[np.zeros(n, np.float32) for n in step] for step in sizes])
    assert fake.calls == [
        "allocate", "invoke", "invoke", ("resize", 1), "allocate", "invoke", "invoke",
        ("resize", 0), "allocate", "invoke",
    ]  # fmt: skip
    assert [array.shape for (array,) in outputs] == [(2,), (2,), (2,), (2,), (0,)]


@needs_litert
def test_an_operator_without_a_reference_kernel_is_run_by_optimized_kernels() -> None:
    elu = parse_model("graph main(%x: f32[2]) -> %y { %y = Elu(%x) }")
    (output,) = run_litert(tflite_of(elu), [np.array([-1, 2], np.float32)])
    assert output.tolist() == pytest.approx([np.expm1(-1), 2.0])


@needs_litert
@pytest.mark.parametrize("text", [b"hello world", b"a\0", b""])
def test_a_scalar_string_reaches_litert(text: bytes) -> None:
    fill = parse_model("graph main(%x: str[]) -> %y { %y = Fill([2], %x) }")
    (output,) = run_litert(tflite_of(fill), [np.array(text, object)])
    assert output.tolist() == [text, text]


@needs_litert
def test_a_scalar_string_keeps_zero_bytes_at_its_end() -> None:
    gather = parse_model("graph main(%x: str[2], %i: i32[]) -> %y { %y = Gather(%x, %i) }")
    inputs = [np.array([b"a", b"b\0"], object), np.array(1, np.int32)]
    (output,) = run_litert(tflite_of(gather), inputs)
    assert circlekit.run(gather, inputs)[0].item() == output.item() == b"b\0"
