# SPDX-License-Identifier: Apache-2.0
"""Calibrate and quantize models."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from numbers import Real
from typing import Any

from circlekit.api.models import FilePath
from circlekit.api.quantization_choice import QuantizationChoice
from circlekit.api.rewriting import optimize
from circlekit.errors import ModelError, UnsupportedError, counted, names_in
from circlekit.io.write.save import encoded
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model, check_model
from circlekit.passes.engine.legalize import legalize, legalize_in_place
from circlekit.passes.engine.model_summary import Summary, summarize
from circlekit.passes.engine.registry import find_pass, pass_names
from circlekit.quant.apply import apply
from circlekit.quant.calibration import Calibration, Runner, collect
from circlekit.quant.calibration.calibration import make_names_distinct
from circlekit.quant.calibration.observer import Channels, Histograms
from circlekit.quant.calibration.ranges import check_estimator
from circlekit.quant.calibration.samples import Samples, checked_samples
from circlekit.quant.cautions import cautions
from circlekit.quant.fake.grids import remove_idle_bounds, take_grids
from circlekit.quant.forms.given_forms import with_followed
from circlekit.quant.mixed.mixed_precision import raise_operators
from circlekit.quant.mixed.raising import Budget
from circlekit.quant.one.quantize_as_one import PREPARATION as ONE_PREPARATION
from circlekit.quant.plan import Plan, Preparation, TensorForm
from circlekit.quant.plan_check import fit_plan
from circlekit.quant.quantization_report import QuantizationReport
from circlekit.quant.quantize import preparation
from circlekit.quant.scheme import DEFAULT_SCHEME, NO_SCHEME, Scheme, find_scheme
from circlekit.quant.technique_search import TECHNIQUES
from circlekit.quant.techniques.replay import replay
from circlekit.targets.target import find_target

INTERFACES = ("float", "integer")
"""The kinds of inputs and outputs of a quantized model."""


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

    ``samples``: an iterable of samples, or the path of a file or folder (see ``circlekit calibrate --help``).
    A sample is a list of arrays in the order of the graph's inputs, or a dict of arrays by the names of the
    inputs in the graph or in a signature.
    ``channels``: the tensors that get statistics per channel: True for all whose last axis has a known size,
    a list of names, or a dict {name: axis of the channels}.
    ``histograms``: the tensors that get a histogram: True for all, or a list of names.
    ``engine``: what runs the model: ``circlekit``, or ``litert``.  LiteRT is faster for large models, and
    must be installed.
    ``processes``: the number of processes that run samples; None: one, or for long work as many as there are
    processors.
    ``client``: a ``distributed.Client``, to run on its Dask cluster.
    ``state``: a .json or .npz file to which the result is written from time to time and at the end.  If an
    interrupted run left this file, this run continues that run, and does not run its samples again.  Model,
    samples, channels, histograms and engine must be the same, but more samples may follow.
    The result does not depend on the number of processes or workers.  Its methods ``save`` and ``load`` write
    and read files.  The result identifies tensors by name.  So if two tensors of ``model`` have the same
    name, one of them is renamed, in place; inputs and outputs keep their names.

    Raise ModelError in these cases:

    - there are no samples or no float tensors, or ``samples`` has another type
    - a sample has NaN
    - two different inputs or outputs have the same name
    - ``channels`` or ``histograms`` names no computed float tensor, or an axis that the tensor lacks
    - a process that runs samples crashes, or LiteRT fails
    - the file ``state`` exists, and the model keeps state between runs
    - the file ``state`` belongs to a run that ended, or to a run with another model, other samples, channels,
      histograms or another engine

    Raise ShapeError if a sample does not fit the inputs, or if the number of channels of a tensor changes;
    UnsupportedError for a wrong engine or number of processes, or if the engine cannot run the model;
    FileError if a file cannot be read or ``state`` cannot be written; FormatError if a file has wrong
    contents; and the errors of ``run``.
    """
    check_model(model)
    runner = Runner(engine, processes, client)
    return collect(model, samples, channels=channels, histograms=histograms, runner=runner, state=state)


def quantize(
    model: Model,
    scheme: str = DEFAULT_SCHEME,
    samples: Samples | None = None,
    *,
    calibration: Calibration | None = None,
    plan: Plan | FilePath | None = None,
    operators: Mapping[str, str] | None = None,
    only: Iterable[str] | None = None,
    inputs: str = "float",
    outputs: str = "float",
    estimator: str = "min_max",
    passes: str | Iterable[str] = "O1",
    target: str = "litert",
    auto: bool = True,
    seconds: float = 60.0,
    without: Iterable[str] = (),
    target_sqnr: float | None = None,
    budget: str | None = None,
    raise_to: str = "float",
) -> QuantizationReport:
    """Quantize ``model`` in place, and return a report.

    ``scheme``: a name in ``circlekit.quant.scheme.SCHEMES``.
    ``samples``: the samples to calibrate on, see ``calibrate``.  ``calibration``: a calibration of this model
    in place of samples.  Neither is needed for schemes with float activations.  For a model with operators
    that round (FAKE_QUANT, or QUANTIZE and DEQUANTIZE), only the schemes of ONE need samples or a
    calibration.  A tensor that such an operator rounds gets the scale of this operator, if int8 or int16 can
    store the rounded numbers.  So it keeps these numbers.  Without samples and calibration, some other
    tensors have no range; an operator with such a tensor gets ``Scheme.fallback``, or stays float.
    ``plan``: the plan of an earlier run, or the path of its file, which may be edited.  The plan decides
    everything: ``samples``, ``calibration``, ``operators``, ``only``, ``target_sqnr`` and ``budget`` must not
    be given, and all other arguments are ignored.
    ``operators``: {pattern: another scheme, or ``float``} for the operators that the pattern selects.  A
    pattern is the name of a result, the text ``re:`` followed by a regular expression, or a code such as
    ``CONV_2D``.  If several patterns select an operator, the last pattern counts.
    ``only``: patterns of the operators that get ``scheme``; the others stay float, unless ``operators``
    selects them.
    ``inputs``, ``outputs``: ``float``, or ``integer`` for the dtype of the scheme's activations.
    ``estimator``: the name of the range estimator (see ``circlekit.quant.calibration.ranges``).
    ``passes``: the pipeline, or the names of the passes, that run on the float model first.
    ``target``: the runtime that has to run the result.
    ``auto``: with samples, try techniques such as equalization, keep those that help on held-out samples, and
    note what was tried.  This takes about ``seconds`` seconds on a usual processor core.  The limit is a
    number of operations, so the result does not depend on the machine.  Nothing is tried, and scales follow
    from the ranges alone, if there is a ``calibration``, if the model has operators that round, if the scheme
    has float weights, or if it is one of ONE.
    ``without``: techniques that are not tried: keys of ``circlekit.quant.technique_search.TECHNIQUES``.
    ``target_sqnr``, ``budget``: ask for mixed precision, which needs samples: some operators get the scheme
    ``raise_to``.  ``target_sqnr``: choose few operators, but enough that every output reaches this
    signal-to-noise ratio in dB.  ``budget``: choose the operators that help most within a share such as
    ``20%`` (of the operators), ``20% macs`` or ``20% bytes``.

    Before the model changes, raise:

    - RewriteError for an unknown pass
    - UnsupportedError for other unknown names, wrong numbers, ``integer`` if activations are float, a plan
      together with arguments that it decides, a plan with the scheme float or a scheme of ONE, and mixed
      precision with a scheme of ONE
    - ModelError for mixed precision without samples, and for an argument of another type
    - FileError, FormatError or LimitError if the file of a plan is unusable
    - the errors of ``calibrate`` for samples that do not fit.  But if a pass changes the inputs or outputs on
      purpose, samples must fit the model after the passes

    After ``passes`` ran, which may have changed the model, raise ModelError if the plan does not fit, if the
    calibration lacks more than half of the tensors of the main graph, if a scheme lacks samples, or if a
    pattern selects no operator.  Raise UnsupportedError for a wrong regular expression.  A pattern that is
    the code or the class of a declared operator may select none.
    """
    check_model(model)
    started = time.monotonic()
    if plan is not None:
        decided = (samples, calibration, operators, only, target_sqnr, budget)
        if any(argument is not None for argument in decided):
            names = "samples, calibration, operators, only, target_sqnr and budget"
            raise UnsupportedError(f"a plan decides everything: expected none of {names}")
        return _by_plan(model, plan if isinstance(plan, Plan) else Plan.load(plan))
    _require_types(operators, calibration)
    _require_finite(seconds, target_sqnr)
    chosen = find_scheme(scheme)
    if chosen is None:
        raise UnsupportedError("expected a scheme that quantizes, got float")
    interface = _interface("inputs", inputs, chosen), _interface("outputs", outputs, chosen)
    unwanted = names_in("a technique", without)
    if unknown := [word for word in unwanted if word not in TECHNIQUES]:
        known = ", ".join(TECHNIQUES)
        raise UnsupportedError(f"without: expected some of {known}, got {unknown[0]!r}")
    names_in("a pattern", operators or ())  # raises for a pattern that is not a string
    for name in (raise_to, *(operators or {}).values()):
        find_scheme(name)  # raises for an unknown name
    check_estimator(estimator)
    runtime = find_target(target)
    patterns = None if only is None else names_in("a pattern", only)
    limit = None if budget is None else Budget.parse(budget)
    before, sparse = _summary(model), _count_sparse(model)
    steps = Preparation(
        passes if isinstance(passes, str) else names_in("a pass", passes), target, calibration is not None
    )
    selected = pass_names(steps.passes)  # raises for an unknown name
    if samples is not None and not any(find_pass(name).changes_interface for name in selected):
        samples = list(checked_samples(model, samples))  # before the model is changed
    mixes = target_sqnr is not None or budget is not None
    if mixes:
        _require_mixed(chosen, samples)
    given = _prepare(model, chosen, steps)
    choice = QuantizationChoice(
        chosen,
        estimator,
        dict(operators or {}),
        patterns,
        runtime,
        interface,
        given,
        {TECHNIQUES[word] for word in unwanted},
    )
    checked = None if samples is None else list(checked_samples(model, samples))
    if mixes:
        choice.find = partial(raise_operators, target_sqnr=target_sqnr, budget=limit, raise_to=raise_to)
    result = choice.quantize(model, checked, calibration, seconds if auto else 0.0)
    if not chosen.follows_one:
        _clean_up(model, given)
    steps.techniques = choice.techniques
    result.preparation = steps
    report = QuantizationReport(scheme, result, before, _summary(model), choice.notes)
    report.notes += [*cautions(model), *_further_notes(report, sparse - _count_sparse(model), calibration)]
    report.seconds = time.monotonic() - started
    return report


def _require_types(operators: object, calibration: object) -> None:
    """Raise ModelError if one of these arguments of ``quantize`` is given and has a wrong type."""
    for name, argument, kind, expected in (
        ("operators", operators, Mapping, "dict {pattern: scheme}"),
        ("calibration", calibration, Calibration, "Calibration"),
    ):
        if not isinstance(argument, kind | None):
            raise ModelError(f"{name}: expected a {expected}, got {type(argument).__name__}")


def _require_finite(seconds: float, target_sqnr: float | None) -> None:
    """Raise UnsupportedError if one of these numbers is not finite, or if ``seconds`` is below 0."""
    if not (_is_finite(seconds) and seconds >= 0):
        raise UnsupportedError(f"seconds: expected a finite number of 0 or more, got {seconds!r}")
    if target_sqnr is not None and not _is_finite(target_sqnr):
        raise UnsupportedError(f"target_sqnr: expected a finite number, got {target_sqnr!r}")


def _is_finite(number: object) -> bool:
    return isinstance(number, Real) and math.isfinite(number)


def _further_notes(
    report: QuantizationReport, densified: int, calibration: Calibration | None
) -> Iterator[str]:
    """Yield the notes that apply.

    They say that the calibration is incomplete, that the scheme is for no operator, that the file grows, or
    that sparse constants became dense.  ``densified``: the number of these constants.
    """
    if calibration is not None and not calibration.is_complete:
        yield f"the calibration was interrupted: it covers only {counted(calibration.samples, 'sample')}"
    before, after = report.before, report.after
    if not report.schemes and (before.inputs, before.outputs) == (after.inputs, after.outputs):
        yield "the scheme is for no operator of the model: there was nothing to quantize"
    is_larger = (report.after.file_size or 0) > (report.before.file_size or 0)
    if is_larger and set(report.schemes) - {NO_SCHEME}:
        reason = "scales, conversions, or sparse weights made dense, take more bytes than integers save"
        yield f"the file grows: {reason}"
    if densified:
        constants = counted(densified, "sparse constant")
        yield f"{constants} made dense: there are no kernels for sparse integers"


def _count_sparse(model: Model) -> int:
    """Return the number of sparse constants of ``model``."""
    return sum("sparsity" in value.extra for graph in model.graphs for value in graph.values())


def _prepare(model: Model, scheme: Scheme, steps: Preparation) -> list[dict[str, TensorForm]]:
    """Change ``model`` in place into the float model to quantize; return the given forms of each graph.

    A given form is one to which a FAKE_QUANT or QUANTIZE rounded a tensor; ``take_grids`` removes these
    operators.  The list is empty if ``scheme`` has float activations or follows ONE.
    """
    runtime = find_target(steps.target)
    make_names_distinct(model)
    given = take_grids(model) if scheme.activations is not None and not scheme.follows_one else []
    # passes may remove a tensor, such as the operand of a RELU, and keep the result
    given = [with_followed(graph, forms) for graph, forms in zip(model.graphs, given, strict=False)]
    if steps.passes:
        optimize(model, steps.passes)
    if not scheme.follows_one:
        legalize_in_place(model, sorted(runtime.formats)[0], targets=[runtime])
    is_calibrated = steps.is_calibrated or any(given)  # then passes must not make tensors without a range
    prepare = ONE_PREPARATION if scheme.follows_one else preparation(scheme, is_calibrated)
    optimize(model, prepare, target="none")
    return given


def _clean_up(model: Model, given: list[dict[str, TensorForm]]) -> None:
    """Remove operators of the quantized ``model`` that the given model needed, but that do nothing any more.

    ``given``: see ``_prepare``.
    """
    if any(given):
        remove_idle_bounds(model)  # ``take_grids`` inserted MINIMUMs; some clip nothing any more
    optimize(model, ["remove_redundant_quantize"], target="none")


def _by_plan(model: Model, plan: Plan) -> QuantizationReport:
    """Prepare the float ``model``, apply ``plan`` to it, and return the report.

    Raise UnsupportedError for a plan of the scheme float or of a scheme that follows ONE.
    """
    started = time.monotonic()
    chosen = find_scheme(plan.scheme)
    if chosen is None or chosen.follows_one:
        raise UnsupportedError(f"a plan of the scheme {plan.scheme} cannot be applied")
    before = _summary(model)
    given = _prepare(model, chosen, plan.preparation)
    replay(model, plan.preparation.techniques)
    fit_plan(model, plan, find_target(plan.preparation.target))
    apply(model, plan)
    _clean_up(model, given)
    report = QuantizationReport(plan.scheme, plan, before, _summary(model), cautions(model))
    report.seconds = time.monotonic() - started
    return report


def _require_mixed(scheme: Scheme, samples: Samples | None) -> None:
    """Check that mixed precision is possible.

    Raise ModelError if there are no samples, UnsupportedError if ``scheme`` follows ONE.
    """
    if samples is None or (isinstance(samples, list) and not samples):
        raise ModelError("expected samples for mixed precision, got none")
    if scheme.follows_one:
        raise UnsupportedError(f"mixed precision: expected a scheme of LiteRT, got {scheme.name}")


def _interface(side: str, name: str, scheme: Scheme) -> DType | None:
    """Return the dtype of inputs or outputs, None for float.

    ``side``: ``inputs`` or ``outputs``, for messages.  ``name``: one of INTERFACES.  Raise UnsupportedError
    for another name, and for ``integer`` if the activations of ``scheme`` are float.
    """
    if name not in INTERFACES:
        raise UnsupportedError(f"{side}: expected {' or '.join(INTERFACES)}, got {name!r}")
    if name == "integer" and scheme.activations is None:
        raise UnsupportedError(f"{side}: expected float for {scheme.name}, whose activations are float")
    return scheme.activations if name == "integer" else None


def _summary(model: Model) -> Summary:
    """Return the summary of ``model``, with the size that its file would have."""
    file = encoded(legalize(model, model.format), model.format)
    return summarize(model, file.size)


def expand_weights(model: Model) -> None:
    """Replace the constants that a DEQUANTIZE reads, such as float16 weights, by float32 constants.

    ``model`` is changed in place.  ONE's quantizer needs float32.
    """
    optimize(model, ONE_PREPARATION, target="none")
