# SPDX-License-Identifier: Apache-2.0
"""The samples and analyses that the functions for ONE's tools take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.api.one_tools import analyze, samples_or_random

NET = "graph main(%x: f32[2,3]) -> %y {\n  %y = Relu(%x)\n}"


class Counter:
    """An analysis that counts the runs of the network."""

    runs = 0

    def StartNetworkExecution(self, inputs: object) -> None:  # noqa: N802  # ONE's name
        type(self).runs += 1


@pytest.mark.parametrize("given", [str, Path, None])
def test_an_analysis_is_an_object_or_the_path_of_a_file(
    given: Callable[[Path], str | Path] | None, tmp_path: Path
) -> None:
    path = tmp_path / "Broken.py"
    path.write_text("class Broken:\n    def StartAnalysis(self, args):\n        raise ValueError(args)\n")
    model = circlekit.parse(NET)
    if given is None:
        samples = [[np.zeros((2, 3), np.float32)]] * 3
        assert analyze(model, Counter(), samples) == Counter.runs == 3
    else:
        with pytest.raises(circlekit.CirclekitError, match="StartAnalysis: ValueError: words"):
            analyze(model, given(path), arguments="words")


def test_without_samples_there_is_one_random_sample() -> None:
    model = circlekit.parse(NET)
    ((array,),) = samples_or_random(model, None)
    assert array.shape == (2, 3)
    assert 1 < np.abs(array).max() <= 5, "uniform, as in ONE's tools"
    given = np.ones((2, 3), np.float32)
    ((array,),) = samples_or_random(model, [[given]])
    np.testing.assert_array_equal(array, given)
