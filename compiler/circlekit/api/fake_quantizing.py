# SPDX-License-Identifier: Apache-2.0
"""Insert FAKE_QUANT operators, which round floats to the numbers that integers can represent."""

from __future__ import annotations

from typing import Any

from circlekit.api.rewriting import optimize as run_passes
from circlekit.errors import ModelError
from circlekit.ir.graph import Model, check_model
from circlekit.quant.calibration import Calibration, collect
from circlekit.quant.calibration.samples import Samples
from circlekit.quant.fake.insert import (
    FakeQuantOptions,
    Inserted,
    insert_fake_quant,
    refuse_training_options,
)


def fake_quantize(
    model: Model,
    *,
    samples: Samples | None = None,
    calibration: Calibration | None = None,
    optimize: bool = True,
    **options: Any,
) -> list[Inserted]:
    """Insert FAKE_QUANT operators into ``model``, in place, where TensorFlow's contrib.quantize does.

    Return one ``Inserted`` for each rounded value.  The ranges of activations come from exactly one of
    ``samples`` and ``calibration``.

    ``samples``: inputs of the model, as arrays or in a file or folder (see ``Samples``).
    ``calibration``: ranges recorded on the model into which the operators are inserted.  That is the result
    of O1; with ``optimize=False`` it is ``model`` as given.
    ``optimize``: run O1 first, so that batch norms are folded.  O1 also folds the FAKE_QUANTs of weights into
    the weights, which are then rounded again.
    ``options``: fields of ``FakeQuantOptions``, such as ``weight_bits=4``.

    Raise UnsupportedError for an option that does not exist, has a wrong value, or has a meaning only in
    training.  Raise ModelError if ``model`` or ``calibration`` has another type, if ``samples`` and
    ``calibration`` are both given or both missing, if an activation has no range, or if weights are not
    finite.  The errors of ``calibrate`` and of the function ``optimize`` pass through.  After an error,
    ``model`` may be optimized or partly changed.
    """
    check_model(model)
    known = {name: options.pop(name) for name in FakeQuantOptions.__dataclass_fields__ if name in options}
    refuse_training_options(list(options))  # the options that are left have no field
    chosen = FakeQuantOptions(**known)
    if (samples is None) == (calibration is None):
        got = "neither" if samples is None else "both"
        wanted = "expected exactly one of samples and calibration, for the ranges of activations"
        raise ModelError(f"{wanted}, got {got}")
    if not isinstance(calibration, Calibration | None):
        raise ModelError(f"calibration: expected a Calibration, got {type(calibration).__name__}")
    if optimize:
        run_passes(model, "O1")
    if calibration is None:
        assert samples is not None  # one of the two is given
        calibration = collect(model, samples)
    return insert_fake_quant(model, calibration, chosen)
