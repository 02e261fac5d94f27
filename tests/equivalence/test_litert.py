# SPDX-License-Identifier: Apache-2.0
"""LiteRT as an oracle: outputs, differences, and models that it refuses or that take too long."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.equivalence import litert
from circlekit.equivalence.litert import LiteRTProcess, accepted_files, differences, run_litert, tflite_of
from circlekit.errors import EquivalenceError, UnsupportedError
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array

needs_litert = pytest.mark.skipif(not litert.is_available(), reason="LiteRT is not installed")
RELU = parse_model("graph main(%x: f32[?,2]) -> %y { %y = Relu(%x) }")
X = np.array([[-1, 2]], np.float32)


@pytest.mark.parametrize(
    ("ours", "theirs", "tolerance", "sentence"),
    [
        ([1.0, 1000.0], [1.0, 1000.0], None, ""),
        ([1.009, 1000.0], [1.0, 1000.0], None, ""),
        ([1.011, 1000.0], [1.0, 1000.0], None, "%y, LiteRT's and ours: [0]: 1.0 and 1.011"),
        ([1.011, 1000.0], [1.0, 1000.0], 1e-3, ""),
        ([1.0, np.inf], [1.0, np.inf], None, ""),
        ([np.nan], [np.nan], None, ""),
        ([[1.0]], [1.0], None, "%y is float32[1, 1], by LiteRT float32[1]"),
    ],
)
def test_differences(ours: list[float], theirs: list[float], tolerance: float | None, sentence: str) -> None:
    arrays = (np.array(ours, np.float32), np.array(theirs, np.float32))
    found = differences(["y"], [arrays[0]], [arrays[1]], tolerance)
    assert len(found) == bool(sentence)
    assert "".join(found).startswith(sentence)


def test_differences_of_integers_and_texts() -> None:
    whole: list[Array] = [np.array([1000], np.int32), np.array([1001], np.int32)]
    assert len(differences(["y"], whole[:1], whole[1:], 0.5)) == 1
    texts: list[Array] = [np.array([b"a"], object), np.array([b"b"], object)]
    assert differences(["y"], texts[:1], texts[:1]) == []
    assert differences(["y"], texts[:1], texts[1:]) == ["%y, LiteRT's and ours: [b'b'] and [b'a']"]
    assert differences(["y"], [X.astype("i4")], [X]) == ["%y is int32[1, 2], by LiteRT float32[1, 2]"]


@needs_litert
def test_outputs_of_one_run_and_of_several() -> None:
    data = tflite_of(RELU)
    assert run_litert(data, [X])[0].tolist() == [[0.0, 2.0]]
    tall = np.repeat(X, 3, axis=0)
    assert [outputs[0].shape for outputs in litert.run_steps(data, [[X], [tall]])] == [(1, 2), (3, 2)]


@needs_litert
def test_what_it_refuses() -> None:
    custom = parse_model(
        'graph main(%x: f32[1]) -> %y { %y = Opaque(%x) {code: "CUSTOM", custom_code: "No"} : f32[1] }'
    )
    with pytest.raises(UnsupportedError, match=r"LiteRT does not support the model: .*No"):
        run_litert(tflite_of(custom), [np.zeros(1, np.float32)])
    with pytest.raises(EquivalenceError, match="LiteRT does not accept the model"):
        run_litert(b"TFL3" * 4, [])


@needs_litert
@pytest.mark.slow
def test_another_process() -> None:
    data = tflite_of(RELU)
    assert accepted_files([data, b"\0" * 64]) == [True, False]
    with LiteRTProcess() as process:
        assert process.close() is None
        assert process.run(data, [[X]])[0][0].tolist() == [[0.0, 2.0]]
        with pytest.raises(EquivalenceError, match="does not accept the model"):
            process.run(b"TFL3" * 4, [[X]])
        process.timeout_seconds = 0.0
        with pytest.raises(EquivalenceError, match=r"LiteRT takes longer than 0.0 s"):
            process.run(data, [[X]] * 10_000)  # so many that it cannot have answered already
        assert process.close() is None, "a run that takes too long ends the process"
