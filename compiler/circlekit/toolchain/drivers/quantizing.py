# SPDX-License-Identifier: Apache-2.0
"""The driver one-quantize and its options.  By default, it quantizes a trained model by ONE's rules.

Some switches select other work: mixing uint8 and int16 (``ampq``), or changing a quantized model (the
switches in ``quantizer_modes.CHANGES``).  The option ``mode`` only selects the estimator of ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from circlekit.toolchain.driver import Driver, Invocation
from circlekit.toolchain.drivers.optimizing import PROFILE
from circlekit.toolchain.option import (
    INPUT_PATH,
    OUTPUT_PATH,
    SAVE_INTERMEDIATE,
    Kind,
    Option,
    UsageFault,
    Values,
)
from circlekit.toolchain.quantizer_modes import ALGORITHMS, GROUPS, METRICS, SIDES
from circlekit.toolchain.session import Session


def _check_number(kind: Callable[[str], object], text: str, message: str) -> None:
    """Raise UsageFault with ``message`` if ``kind`` (int or float) cannot convert ``text``."""
    try:
        kind(text)
    except ValueError:
        raise UsageFault(message) from None


def _declare() -> list[Option]:
    """Return the options of one-quantize."""
    switch = Kind.SWITCH
    return [
        INPUT_PATH,
        Option("input_data", "samples to calibrate on; without them, seeded random ones", "-d"),
        Option(
            "input_data_format",
            "h5/hdf5 (default; also npz, npy), list/filelist (a text with a line of raw files per sample), "
            "dir/directory (a folder of raw files)",
            "-f",
        ),
        OUTPUT_PATH, PROFILE, SAVE_INTERMEDIATE,
        Option("input_dtype", "dtype of the input model (deprecated: use input_model_dtype)"),
        Option("input_model_dtype", "dtype of the input model: float32 (default); int8 with requantize"),
        Option("quantized_dtype", "uint8 (default) or int16"),
        Option("granularity", "granularity of weights: layer (default; for uint8 only) or channel"),
        Option("input_type", "dtype of all inputs, or a list (default: quantized_dtype; with ampq: uint8)"),
        Option("output_type", "dtype of all outputs, or a list (default: quantized_dtype; with ampq: uint8)"),
        Option("min_percentile", "min of a tensor: this percentile of the samples' minima", default="1.0"),
        Option("max_percentile", "max of a tensor: this percentile of the samples' maxima", default="99.0"),
        Option("moving_avg_batch", "number of samples in a batch of the moving average", default="16"),
        Option("moving_avg_const", "weight of a new batch in the moving average", default="0.1"),
        Option("mode", "estimator of ranges: percentile or moving_average", default="percentile"),
        Option("TF-style_maxpool", "the result of MAX_POOL_2D has the scale of its operand", kind=switch),
        Option("save_min_max", "keep the recorded min and max in the model", kind=switch),
        Option("quant_config", "JSON file with dtype and granularity: defaults, and those of single layers"),
        Option("evaluate_result", "compare the quantized model with the float model", kind=switch),
        Option("test_data", "samples to evaluate on; without them, seeded random ones"),
        *(Option(f"print_{m}", f"print {m.upper()} of the evaluation", kind=switch) for m in METRICS),
        Option("force_quantparam", "overwrite scale and zero point of tensors", kind=switch),
        Option("tensor_name", "force_quantparam: a tensor to change", kind=Kind.REPEATED),
        Option("scale", "force_quantparam: scale of tensor_name", kind=Kind.REPEATED, parse=float),
        Option("zero_point", "force_quantparam: zero point of tensor_name", kind=Kind.REPEATED, parse=int),
        Option("copy_quantparam", "copy scale and zero point between tensors", kind=switch),
        Option("src_tensor_name", "copy_quantparam: a tensor to copy from", kind=Kind.REPEATED),
        Option("dst_tensor_name", "copy_quantparam: the tensor to copy to", kind=Kind.REPEATED),
        Option("fake_quantize", "make a quantized model float; activations stay rounded", kind=switch),
        Option("requantize", "change the dtype of a quantized model: int8 to uint8", kind=switch),
        Option("ampq", "mix uint8 and int16 (circle-mpqsolver)", kind=switch),
        Option("ampq_qerror_ratio", "allowed error: 0 (as int16) to 1 (as uint8); default 0.5", parse=float),
        Option("ampq_algorithm", "bisection or pattern", default="bisection"),
        Option("bisection_type", "auto, i16_front or i16_back", default="auto"),
        Option("ampq_bisection_visq", "bisection_type auto: a file of visq with the errors of tensors"),
        Option("u8_layernorm_with_s16_variance", "pattern: int16 for variances of layer norms", kind=switch),
        Option("u8_softmax_with_s16_sub_exp", "pattern: int16 inside softmaxes", kind=switch),
    ]  # fmt: skip


def _check(values: Values) -> None:
    """Raise UsageFault for options that are missing, do not fit together, or are not numbers.

    GROUPS: {switch: the repeated options that it needs}; these options must have equally many values.
    """
    missing: list[str] = []
    if values.get("requantize"):
        has_source = "input_model_dtype" in values or "input_dtype" in values
        missing += [] if has_source else ["--input_model_dtype"]
        missing += [] if "quantized_dtype" in values else ["--quantized_dtype"]
    for switch, names in GROUPS.items():
        if values.get(switch):
            missing += [f"--{name}" for name in names if name not in values]
    if missing:
        raise UsageFault(f"the following arguments are required: {' '.join(missing)}")
    for switch, names in GROUPS.items():
        if values.get(switch) and len({len(values[name]) for name in names}) > 1:
            listed = f"{', '.join(names[:-1])}, and {names[-1]}" if len(names) > 2 else " and ".join(names)
            raise UsageFault(f"The same number of {listed} should be given.")
    if values["mode"] not in ESTIMATORS:
        raise UsageFault(f"Unsupported mode: {values['mode']!r} (expected {' or '.join(ESTIMATORS)})")
    for name, (kind, word) in ESTIMATORS[values["mode"]].items():
        _check_number(kind, values[name], f"{name} must be {word}")
    if values.get("ampq"):
        _check_mixed(values)


def _check_mixed(values: Values) -> None:
    """Raise UsageFault for wrong options of ``ampq``, before ranges are recorded, which may take long."""
    choices: dict[str, Iterable[str]] = {"ampq_algorithm": ALGORITHMS}
    if values["ampq_algorithm"] == "bisection":
        choices["bisection_type"] = SIDES
    for name, known in choices.items():
        if values[name] not in known:
            raise UsageFault(f"{name}: expected {' or '.join(known)}, got {values[name]!r}")
    ratio = float(values.get("ampq_qerror_ratio", 0.5))
    if not 0 <= ratio <= 1:
        raise UsageFault(f"ampq_qerror_ratio: expected a number from 0 to 1, got {ratio:g}")


ESTIMATORS: dict[str, dict[str, tuple[Callable[[str], object], str]]] = {
    "percentile": {"min_percentile": (float, "float"), "max_percentile": (float, "float")},
    "moving_average": {"moving_avg_batch": (int, "integer"), "moving_avg_const": (float, "float")},
}
"""{value of ``mode``: {option that it uses: (function that parses its value, name of its type)}}."""


def _run(invocation: Invocation, session: Session) -> None:
    """Run one-quantize."""
    from circlekit.toolchain.quantization import quantize  # imports the passes, which --help does not need

    quantize(invocation, session)


one_quantize = Driver(
    "one-quantize", "command line tool to quantize circle model", _declare, _run, check=_check
)
