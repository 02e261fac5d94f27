# SPDX-License-Identifier: Apache-2.0
"""The work of one-quantize.

In ONE, one-quantize calls several programs, which hand models over as files.  Here the same steps are done on
one model in memory.  ``Session.program`` logs and reports each step as ONE's program would.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from circlekit.api.quantizing import expand_weights
from circlekit.api.structure_checks import check_structure
from circlekit.errors import UnsupportedError
from circlekit.io.write.file_writer import write_file
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.passes.engine.origin_tables import add_profile
from circlekit.quant.calibration import collect
from circlekit.quant.calibration.recorded_ranges import record_ranges
from circlekit.quant.calibration.samples import checked_samples
from circlekit.quant.mixed.mpqsolver import Configuration, Solver, pattern_setting
from circlekit.quant.mixed.one_patterns import ONE_PATTERNS
from circlekit.quant.mixed.visq import read_errors, tensor_errors
from circlekit.quant.one.fake_quantized import fake_quantize
from circlekit.quant.one.given_parameters import copy_parameters, force_parameters, requantize_int8_to_uint8
from circlekit.quant.one.sample_data import check_percentiles, recording_lines, samples_of
from circlekit.quant.one.settings import (
    Settings,
    check_source,
    layer_setting,
    layers_in,
    port_types,
    read_configuration,
)
from circlekit.quant.one.weights_only import quantize_dequantize_weights
from circlekit.quant.one.with_minmax import quantize_with_minmax
from circlekit.toolchain.driver import Invocation
from circlekit.toolchain.evaluation import evaluate
from circlekit.toolchain.mpqsolver_output import SearchFiles, heading
from circlekit.toolchain.mpqsolver_search import bisect, read_visq_file
from circlekit.toolchain.option import Values
from circlekit.toolchain.quantizer_modes import CHANGES, GROUPS, METRICS, SIDES
from circlekit.toolchain.session import Session


def quantize(invocation: Invocation, session: Session) -> None:
    """Run one-quantize in the mode that the options choose.

    If a step fails, print the error as ONE's program does and raise StepFailed.
    Raise the errors of ``read_layers`` if the file ``quant_config`` cannot be read or is wrong.
    """
    values = _with_configuration(invocation.values)
    invocation = replace(invocation, values=values)
    if values.get("ampq"):
        _mix(invocation, session)
    elif any(values.get(mode) for mode in CHANGES):
        _change(values, session)
    else:
        _quantize(invocation, session)


def _with_configuration(values: Values) -> Values:
    """Return ``values`` with the content of the file ``quant_config``, if this option is given.

    The defaults in the file become the options ``quantized_dtype`` and ``granularity`` if these have no
    value.  The additional key ``layers`` gets the alternatives for ``Settings.layers``.
    The file is read only here, because it may be a pipe, which can be read only once.
    Raise the errors of ``read_layers``.
    """
    if "quant_config" not in values:
        return values
    path = str(values["quant_config"])
    document = read_configuration(path)
    layers = layers_in(document, path)
    defaults = {
        "quantized_dtype": document.get("default_quantization_dtype"),
        "granularity": document.get("default_granularity"),
    }
    return {**values, **{key: values.get(key) or word for key, word in defaults.items()}, "layers": layers}


# -- post-training quantization ------------------------------------------------------------------


def _quantize(invocation: Invocation, session: Session) -> None:
    """Round the weights to their quantized values, record ranges, quantize.

    With ``evaluate_result``, compare the result with the float model.
    """
    values = invocation.values
    source, target = str(values["input_path"]), str(values["output_path"])
    words = [_source_dtype(values), _dtype(values), _granularity(values)]
    config = ["--config", str(values["quant_config"])] if "quant_config" in values else []
    profile = ["--generate_profile_data"] if values.get("generate_profile_data") else []
    with session.intermediate(values) as folder:
        stem = str(folder / Path(source).stem)
        rounded, recorded = f"{stem}.weights_fake_quant.circle", f"{stem}.minmax_recorded.circle"
        with session.program(
            QUANTIZER,
            ["--quantize_dequantize_weights", *words, *config, source, rounded, *profile],
            prefix=PREFIX,
        ):
            model = session.load(source)
            check_structure(model, source)
            expand_weights(model)  # ONE's quantizer needs float32
            original = clone(model) if profile else None
            quantize_dequantize_weights(model, _settings(values))
            _keep(values, session, model, rounded)
        _record(invocation, session, model, rounded, recorded)
        flags = invocation.flags("TF_style_maxpool", "save_min_max", "input_type", "output_type")
        with session.program(
            QUANTIZER,
            ["--quantize_with_minmax", *words, *flags, *config, recorded, target, *profile],
            prefix=PREFIX,
        ):
            expand_weights(model)  # as each run of the quantizer does
            quantize_with_minmax(model, _settings(values))
            if original is not None:
                add_profile(original, model)
            session.save(model, target)
        if values.get("evaluate_result"):
            _evaluate(invocation, session, f"{stem}.fake_quant.circle")


QUANTIZER, PREFIX = "circle-quantizer", "circle_quantizer"
"""The program of ONE that does most steps, and the prefix with which one-quantize prints its errors."""


def _record(invocation: Invocation, session: Session, model: Model | None, source: str, target: str) -> Model:
    """Record the ranges of the tensors of ``model`` as record-minmax does; return the model.

    If ``model`` is None, it is read from the file ``source``.  ``target``: the intermediate file for the
    result.
    """
    values = invocation.values
    words = invocation.flags(
        "input_data", "input_data_format", "min_percentile", "max_percentile", "moving_avg_batch",
        "moving_avg_const", "mode",
    )  # fmt: skip
    with session.program("record-minmax", ["--input_model", source, "--output_model", target, *words]):
        model = session.load(source) if model is None else model
        samples = samples_of(model, values.get("input_data"), values.get("input_data_format", "h5"))
        if values["mode"] == "percentile":
            options = {"low": float(values["min_percentile"]), "high": float(values["max_percentile"])}
            check_percentiles(**options)
            estimator = "sample_percentile"
        else:
            options = {
                "batch": int(values["moving_avg_batch"]),
                "constant": float(values["moving_avg_const"]),
            }
            estimator = "moving_average"
        calibration = collect(model, samples)
        record_ranges(model, calibration, estimator, **options)
        session.say("\n".join(recording_lines(calibration.samples)))
        _keep(values, session, model, target)
    return model


def _keep(values: Values, session: Session, model: Model, path: str) -> None:
    """Write an intermediate model if ``save_intermediate`` is set."""
    if values.get("save_intermediate"):
        session.save(model, path)


def _settings(values: Values) -> Settings:
    """Return the settings of ONE's quantizer for the options.

    ``values``: see ``_with_configuration``.  Raise UnsupportedError for wrong values.
    """
    check_source(_source_dtype(values), "float32")
    ports = {side: values.get(f"{side}_type") for side in ("input", "output")}
    types = {side: None if text is None else port_types(str(text), side) for side, text in ports.items()}
    return Settings(
        default=layer_setting(_dtype(values), _granularity(values)),
        layers=values.get("layers", [{}]),  # [{}]: no layer has a setting of its own
        input_types=types["input"],
        output_types=types["output"],
        max_pool_keeps_scale=bool(values.get("TF_style_maxpool")),
        keeps_range=bool(values.get("save_min_max")),
    )


def _source_dtype(values: Values) -> str:
    """Return ONE's name of the dtype of the model to quantize."""
    return str(values.get("input_model_dtype") or values.get("input_dtype") or "float32")


def _dtype(values: Values) -> str:
    """Return ONE's name of the dtype of the quantized model."""
    return str(values.get("quantized_dtype") or "uint8")


def _granularity(values: Values) -> str:
    """Return ONE's word for the granularity of weights."""
    return str(values.get("granularity") or "layer")


# -- evaluation ----------------------------------------------------------------------------------


def _evaluate(invocation: Invocation, session: Session, fake_path: str) -> None:
    """Compare the quantized model with the float model, and print the metrics.

    The quantized model is made float first: it then rounds as the quantized kernels do (fake quantization).
    ``fake_path``: the intermediate file for this model.
    """
    values = invocation.values
    source, quantized, data = str(values["input_path"]), str(values["output_path"]), values.get("test_data")
    with session.program(QUANTIZER, ["--fake_quantize", quantized, fake_path], prefix=PREFIX):
        rounding = session.load(quantized)
        fake_quantize(rounding)
        _keep(values, session, rounding, fake_path)
    metrics = [metric for metric in METRICS if values.get(f"print_{metric}")]
    words = ["--first_model", source, "--second_model", fake_path]
    words += ["--first_input_data", str(data), "--second_input_data", str(data)] if data else []
    words += invocation.flags("input_data_format", *(f"print_{metric}" for metric in metrics))
    with session.program("circle-eval-diff", words):
        form = str(values.get("input_data_format", "h5"))
        for line in evaluate(
            session.load(source), rounding, None if data is None else str(data), form, metrics
        ):
            session.say(line)


# -- other modes ---------------------------------------------------------------------------------


def _change(values: Values, session: Session) -> None:
    """Run the first mode of CHANGES that is set: change a quantized model."""
    source, target = str(values["input_path"]), str(values["output_path"])
    mode = next(mode for mode in CHANGES if values.get(mode))
    # one tuple for each tensor, for example (tensor name, scale, zero point); none for modes without GROUPS
    tuples = list(zip(*(values[name] for name in GROUPS.get(mode, ())), strict=True))
    words = [w for items in tuples for w in (f"--{mode}", *items)] if tuples else [f"--{mode}"]
    words += [_source_dtype(values), _dtype(values)] if mode == "requantize" else []
    with session.program(QUANTIZER, [*words, source, target], prefix=PREFIX):
        model = session.load(source)
        match mode:
            case "force_quantparam":
                force_parameters(model, [(name, float(scale), int(zero)) for name, scale, zero in tuples])
            case "copy_quantparam":
                copy_parameters(model, tuples)
            case "fake_quantize":
                fake_quantize(model)
            case _:  # requantize
                check_source(_source_dtype(values), "int8")
                if _dtype(values).lower() != "uint8":
                    known = "List of supported output types: uint8"
                    raise UnsupportedError(f"Unsupported output type {_dtype(values)!r}. {known}")
                requantize_int8_to_uint8(model)
        session.save(model, target)


def _mix(invocation: Invocation, session: Session) -> None:
    """Quantize with int16 for some operators, as circle-mpqsolver does."""
    values = invocation.values
    source, target = str(values["input_path"]), str(values["output_path"])
    with session.intermediate(values) as folder:
        recorded = str(folder / f"{Path(source).stem}.minmax_recorded.circle")
        model = _record(invocation, session, None, source, recorded)
        data = values.get("input_data")
        words = ["--input_model", recorded, "--output_model", target, "--granularity", _granularity(values)]
        words += ["--data", str(data)] if data else []
        is_bisection = values["ampq_algorithm"] != "pattern"
        shown = {
            **values, "input_model": recorded, "data": data, "quantized_dtype": _dtype(values),
            "granularity": _granularity(values), "input_dtype": values.get("input_type", "uint8"),
            "output_dtype": values.get("output_type", "uint8"),
        }  # fmt: skip
        with session.program("circle-mpqsolver", words, prefix="circle_mpqsolver"):
            settings = _settings({"input_type": "uint8", "output_type": "uint8", **values})
            # a bisection starts from uint8; with patterns, the other operators may have another dtype
            dtype = "uint8" if is_bisection else _dtype(values)
            default = pattern_setting(dtype, _granularity(values))
            session.say("\n".join(heading(shown, is_bisection)))
            solver = Solver(model, replace(settings, default=default), session.say)
            session.save(solver.quantized(_configuration(values, solver, session, folder)), target)


def _configuration(values: Values, solver: Solver, session: Session, folder: Path) -> Configuration:
    """Return the configuration that the algorithm chooses: which operators become int16.

    The option ``ampq_algorithm`` names the algorithm.
    ``folder``: where the files of ``save_intermediate`` are written.
    Raise the errors of ``bisect`` and ``_visq_errors``.
    """
    stem = str(folder / Path(str(values["input_path"])).stem)
    files = SearchFiles(folder, f"{stem}.minmax_recorded.circle") if values.get("save_intermediate") else None
    if values["ampq_algorithm"] == "pattern":
        found = solver.patterns([name for name in ONE_PATTERNS if values.get(name)])
        if files is not None:
            files.end(found)
        return found
    side = SIDES[str(values["bisection_type"])]  # None: the errors of the tensors decide
    errors = _visq_errors(values, solver.model, session, stem) if side is None else None
    ratio, form = float(values.get("ampq_qerror_ratio", 0.5)), str(values.get("input_data_format", "h5"))
    return bisect(solver, values.get("input_data"), form, ratio, side, errors, files)


def _visq_errors(values: Values, recorded: Model, session: Session, stem: str) -> dict[str, float]:
    """Return {tensor name: the error that appears in it if the model is quantized to uint8}.

    If the option ``ampq_bisection_visq`` names a file, which ONE's tool visq wrote, read the errors from it.
    Otherwise measure them as visq does: the error is the sum of absolute differences (TAE).
    Raise the errors of ``read_visq_file``, or those of ``samples_of`` and ``tensor_errors``.
    ``recorded``: the float model with recorded ranges.  ``stem``: the beginning of the paths of intermediate
    files.
    """
    if "ampq_bisection_visq" in values:
        return read_visq_file(str(values["ampq_bisection_visq"]))
    original, quantized = session.load(str(values["input_path"])), clone(recorded)
    fixed = {"input_type": "uint8", "output_type": "uint8", "granularity": "channel"}
    quantize_with_minmax(quantized, _settings({**values, "quantized_dtype": "uint8", **fixed}))
    data = samples_of(original, values.get("input_data"), str(values.get("input_data_format", "h5")))
    _keep(values, session, quantized, f"{stem}.visq.q8.circle")
    found = next(iter(tensor_errors(original, quantized, checked_samples(original, data), ["TAE"])))
    name = Path(str(values["input_path"])).name
    document = found.document(name)
    if values.get("save_intermediate"):
        write_file(f"{stem}.tae.visq.json", [json.dumps(document).encode()])
        write_file(f"{stem}.tae.visq.json.dot", [found.dot(original.main, name).encode()])
    return read_errors(document, "visq")
