# SPDX-License-Identifier: Apache-2.0
"""Calibrate and quantize models."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from circlekit.api.models import FilePath, check_model
from circlekit.api.rewriting import optimize
from circlekit.errors import ModelError, UnsupportedError
from circlekit.io.write.save import encoded
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model
from circlekit.passes.engine.legalize import legalize, legalize_in_place
from circlekit.passes.engine.optimization_report import Summary, summarize
from circlekit.quant.apply import apply
from circlekit.quant.auto import Auto
from circlekit.quant.calibration import Calibration, Runner, collect
from circlekit.quant.calibration.observer import Channels, Histograms
from circlekit.quant.calibration.samples import Sample, Samples, checked_samples
from circlekit.quant.choose import Ranges
from circlekit.quant.fake.grids import take_grids
from circlekit.quant.one.scheme import PREPARATION as ONE_PREPARATION
from circlekit.quant.one.scheme import quantize_by_one
from circlekit.quant.plan import Plan
from circlekit.quant.quantization_report import QuantizationReport
from circlekit.quant.quantize import plan_model, preparation, ranges_of
from circlekit.quant.scheme import Scheme, find_scheme
from circlekit.quant.selection import schemes_of
from circlekit.targets.target import find_target

INTERFACES = ("float", "integer")
"""What the inputs and outputs of a quantized model may be."""


def calibrate(
    model: Model,
    samples: Samples,
    *,
    channels: Channels = False,
    histograms: Histograms = False,
    engine: str = "circlekit",
    processes: int | None = None,
    client: Any = None,
    state: FilePath | None = None,
) -> Calibration:
    """Run ``model`` on samples and return the range and further statistics of every float tensor.

    ``samples``: an iterable of lists of arrays in the order of the graph's inputs, or of dicts of arrays by
    input name; or the path of a file or folder (see ``circlekit calibrate --help``).
    ``channels``: the tensors with statistics per channel: True for all, a list of names, or a dict of axes by
    name.  ``histograms``: True, or a list of names.
    ``engine``: "circlekit", or "litert", which is faster for large models, where it is installed.
    ``processes``: how many run samples, by default as many as there are processors if that pays.
    ``client``: a ``distributed.Client``, to run on a Dask cluster.
    ``state``: a .json or .npz file to which the result is written from time to time and at the end; a run
    that was interrupted continues from it, on the same samples.
    The result does not depend on the number of processes or workers; it has ``save`` and ``load``.

    Raise ModelError without samples or for one with NaN, ShapeError for one that does not fit the inputs,
    UnsupportedError if the engine cannot run the model.
    """
    check_model(model)
    runner = Runner(engine, processes, client)
    return collect(model, samples, channels=channels, histograms=histograms, runner=runner, state=state)


def quantize(
    model: Model,
    scheme: str = "int8",
    samples: Iterable[Sample] | None = None,
    *,
    calibration: Calibration | None = None,
    operators: Mapping[str, str] | None = None,
    only: Iterable[str] | None = None,
    inputs: str = "float",
    outputs: str = "float",
    estimator: str = "min_max",
    passes: str | Iterable[str] = "O1",
    target: str = "litert",
    auto: bool = True,
    seconds: float = 60.0,
) -> QuantizationReport:
    """Quantize ``model`` in place, and return a report.

    ``scheme``: a name of ``circlekit.quant.scheme.SCHEMES``.  ``samples``: what to calibrate on, as for
    ``calibrate``; or else a ``calibration`` of this model.  Schemes with float activations need neither, nor
    does a model that rounds (FAKE_QUANT, or QUANTIZE and DEQUANTIZE): its tensors get exactly these grids.
    ``operators``: another scheme, or ``float``, for the operators that a pattern selects: the name of a
    result, ``re:`` and a regular expression, or a kind such as ``CONV_2D``; the last pattern counts.
    ``only``: patterns of the operators to quantize; the others stay float.
    ``inputs``, ``outputs``: ``float``, or ``integer`` for the dtype of the scheme's activations.
    ``estimator``: the range estimator (see ``circlekit.quant.calibration.ranges``).
    ``passes``: what runs on the float model first; an empty list for nothing.
    ``target``: the runtime that has to run the result.
    ``auto``: with samples, try techniques, keep those that help on samples held back, and note what was
    tried, in about so many ``seconds``.  Otherwise plain rules decide.

    Raise UnsupportedError for unknown names, ModelError for a pattern that selects nothing and for samples
    and calibrations that do not fit.
    """
    check_model(model)
    started = time.monotonic()
    chosen = find_scheme(scheme)
    if chosen is None:
        raise UnsupportedError("the scheme float leaves the model as it is; choose one of integers")
    interface = [_interface(side, name, chosen) for side, name in (("inputs", inputs), ("outputs", outputs))]
    runtime = find_target(target)
    before = _summary(model)
    given = take_grids(model) if chosen.activations is not None and not chosen.by_one else []
    if passes:
        optimize(model, passes)
    if model.format not in runtime.formats and not chosen.by_one:
        legalize_in_place(model, sorted(runtime.formats)[0], targets=[runtime])
    is_calibrated = calibration is not None or any(given)
    prepare = ONE_PREPARATION if chosen.by_one else preparation(chosen, is_calibrated)
    optimize(model, prepare, target="none")
    notes: list[str] = []

    def plan_of(candidate: Model, ranges: Ranges) -> Plan:
        return plan_model(
            candidate, scheme, ranges, operators, only, runtime, interface[0], interface[1], given
        )

    is_open = chosen.weights.is_integer and not chosen.by_one and calibration is None and not any(given)
    if auto and samples is not None and is_open:
        taken = list(checked_samples(model, samples))
        search = Auto(model, taken, plan_of, chosen.activations is not None, estimator, seconds)
        plan, notes = search.run(), search.notes
        apply(model, plan)
    else:
        if samples is not None and calibration is None:
            calibration = collect(model, samples)
        if calibration is None and chosen.activations is not None and not any(given):
            raise ModelError(f"{scheme} needs the ranges of activations: give samples or a calibration")
        ranges = [] if calibration is None else ranges_of(model, calibration, estimator)
        if chosen.by_one:
            schemes = schemes_of(model, scheme, operators, only)
            plan = quantize_by_one(model, chosen, ranges, schemes, *interface)
        else:
            plan = plan_of(model, ranges)
            apply(model, plan)
    report = QuantizationReport(scheme, plan, before, _summary(model), notes)
    report.seconds = time.monotonic() - started
    return report


def _interface(side: str, name: str, scheme: Scheme) -> DType | None:
    """Return the dtype of the inputs or outputs; None for float."""
    if name not in INTERFACES:
        raise UnsupportedError(f"{side}: expected {' or '.join(INTERFACES)}, got {name!r}")
    if name == "integer" and scheme.activations is None:
        raise UnsupportedError(f"{side}: activations of {scheme.name} are float")
    return scheme.activations if name == "integer" else None


def _summary(model: Model) -> Summary:
    file = encoded(legalize(model, model.format), model.format)
    return summarize(model, file.size)
