# SPDX-License-Identifier: Apache-2.0
"""Insert fake quantization into models."""

from __future__ import annotations

from typing import Any

from circlekit.api.models import check_model
from circlekit.api.rewriting import optimize as run_passes
from circlekit.errors import ModelError
from circlekit.ir.graph import Model
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

    Return what was inserted.  Give either ``samples`` or ``calibration``, for the ranges of activations.

    ``samples``: inputs of the model, as arrays or in a file or folder (see ``Samples``).
    ``calibration``: ranges of the model after O1; if ``model`` is already optimized, use ``optimize=False``.
    ``optimize``: run O1 first, so that batch norms are folded.
    ``options``: fields of ``FakeQuantOptions``, such as ``weight_bits=4``.

    Raise UnsupportedError for an option that has a meaning only in training; ModelError if not exactly
    one of ``samples`` and ``calibration`` is given, or if a tensor has no range; and the errors of
    ``calibrate`` and of the function ``optimize``.
    """
    check_model(model)
    known = {name: options.pop(name) for name in FakeQuantOptions.__dataclass_fields__ if name in options}
    refuse_training_options(list(options))
    chosen = FakeQuantOptions(**known)
    if (samples is None) == (calibration is None):
        raise ModelError("expected either samples or a calibration: activations need ranges")
    if optimize:
        run_passes(model, "O1")
    if calibration is None:
        assert samples is not None  # one of the two is given
        calibration = collect(model, samples)
    return insert_fake_quant(model, calibration, chosen)
