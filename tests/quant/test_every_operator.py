# SPDX-License-Identifier: Apache-2.0
"""The recipe of every operator, quantized: float results stay close; the plan gives the same file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.judgement.error_metrics import ErrorMetrics
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.equivalence.unknown_sizes import Sizes
from circlekit.errors import ModelError
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.calibration.calibration import observed_values
from circlekit.quant.one.fake_quantized import fake_quantize
from circlekit.quant.plan import Plan

RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "ops").glob("*.ck"))
LEAST_SQNR = 30.0
"""In dB; 8 bits that cover the range of a tensor give about 45, several roundings less (SVDF: 31)."""

recipes = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


def quantized(path: Path, scheme: str) -> tuple[Model, list[Array], Plan] | None:
    """Return the quantized model, its inputs, and the plan; None if the model computes no float tensor.

    Assert that a model without float tensors is refused.
    """
    model = circlekit.load(path)
    inputs = make_inputs(model.main, InputSet("normal"), Sizes(3))
    if not any(observed_values(model)):
        with pytest.raises(ModelError, match="the model computes no float tensor"):
            circlekit.quantize(model, scheme, [inputs], auto=False, passes=[])
        return None
    report = circlekit.quantize(model, scheme, [inputs], auto=False, passes=[])
    return model, inputs, report.plan


def require_close(path: Path, model: Model, inputs: list[Array]) -> None:
    """Require that the float results of ``model`` are near those of the recipe ``path``."""
    for wanted, got in zip(
        circlekit.run(circlekit.load(path), inputs), circlekit.run(model, inputs), strict=True
    ):
        if wanted.dtype == np.float32:
            metrics = ErrorMetrics()
            metrics.add(wanted, got)
            assert metrics.lost == 0  # no finite number became inf or NaN
            if metrics.noise:
                assert metrics.sqnr is not None, "the float results are 0, the quantized ones are not"
                assert metrics.sqnr > LEAST_SQNR


@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
@recipes
def test_quantized_operators_are_close_and_repeated_by_their_plan(path: Path, scheme: str) -> None:
    if (made := quantized(path, scheme)) is None:
        return
    model, inputs, plan = made
    require_close(path, model, inputs)
    again = circlekit.load(path)
    circlekit.quantize(again, plan=Plan.from_json(plan.to_json()))
    assert to_bytes(again, "circle") == to_bytes(model, "circle")


@recipes
def test_operators_rounded_by_the_rules_of_one_are_close(path: Path) -> None:
    if (made := quantized(path, "one_uint8")) is None:
        return
    model, inputs, _ = made
    dtypes = [value.dtype for value in model.main.inputs]
    fake_quantize(model)
    # a quantized input (recipe dequantize) becomes float, so ``inputs`` no longer fit
    if dtypes == [value.dtype for value in model.main.inputs]:
        require_close(path, model, inputs)
