# SPDX-License-Identifier: Apache-2.0
"""circle-quantizer: ONE's quantizer, with its flags."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from circlekit.api.models import check_output_path, load, save
from circlekit.api.quantizing import expand_weights
from circlekit.api.structure_checks import check_structure
from circlekit.cli.arguments import MODEL_HELP, Parser, output_path
from circlekit.cli.command import Command, OneCodes
from circlekit.errors import UnsupportedError
from circlekit.io.write.save import format_of
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.passes.engine.origin_tables import add_profile
from circlekit.quant.one.fake_quantized import fake_quantize
from circlekit.quant.one.given_parameters import copy_parameters, force_parameters, requantize_int8_to_uint8
from circlekit.quant.one.onnx_quantized import quantize_onnx_model
from circlekit.quant.one.settings import (
    CHANNEL,
    Settings,
    check_source,
    layer_setting,
    port_types,
    read_layers,
)
from circlekit.quant.one.weights_only import WEIGHT_DTYPES, quantize_dequantize_weights, quantize_weights
from circlekit.quant.one.with_minmax import quantize_with_minmax
from circlekit.toolchain.one_words import one_words

DESCRIPTION = """Quantize a circle or TFLite model as ONE does.

Give exactly one mode. The usual sequence is this command with --quantize_dequantize_weights, then
record-minmax, then this command with --quantize_with_minmax."""

CONVERSION_WORDS = ("FROM", "TO", "GRANULARITY")
"""The names that the help page gives to the three words after ``--quantize_weights`` and similar flags."""

MODES = (
    "quantize_dequantize_weights", "quantize_with_minmax", "quantize_weights", "requantize",
    "force_quantparam", "copy_quantparam", "fake_quantize", "quantize_onnx_fq_model",
)  # fmt: skip
"""The modes.  Each is a flag; exactly one of these flags must be given."""


def _declare(parser: Parser) -> None:
    parser.add_argument("input", help=MODEL_HELP)
    parser.add_argument(
        "output", type=output_path, help="the file to write; circle, unless it ends in .tflite or .lite"
    )
    modes = parser.add_argument_group("modes")
    modes.add_argument(
        "--quantize_dequantize_weights", nargs=3, metavar=CONVERSION_WORDS,
        help="round float weights to the numbers that integers stand for. FROM: float32; TO: uint8 or int16; "
        "GRANULARITY: channel, or for uint8 also layer",
    )  # fmt: skip
    modes.add_argument(
        "--quantize_with_minmax", nargs=3, metavar=CONVERSION_WORDS,
        help="quantize with the recorded min and max of tensors. FROM: float32; TO: uint8 or int16; "
        "GRANULARITY: channel, or for uint8 also layer",
    )  # fmt: skip
    modes.add_argument(
        "--quantize_weights", nargs=3, metavar=CONVERSION_WORDS,
        help="quantize weights alone. FROM: float32; TO: int4, int8 or int16; GRANULARITY: channel",
    )  # fmt: skip
    modes.add_argument(
        "--requantize", nargs=2, metavar=("FROM", "TO"),
        help="change all quantized int8 tensors to uint8. FROM: int8; TO: uint8",
    )  # fmt: skip
    modes.add_argument(
        "--force_quantparam", nargs=3, action="append", metavar=("TENSOR", "SCALE", "ZERO_POINT"),
        help="set scale and zero point of a tensor; may be repeated",
    )  # fmt: skip
    modes.add_argument(
        "--copy_quantparam", nargs=2, action="append", metavar=("SOURCE", "TARGET"),
        help="copy the quantization of tensor SOURCE to tensor TARGET; may be repeated",
    )  # fmt: skip
    for flag, text in (
        ("--fake_quantize", "make a quantized model float; QUANTIZE and DEQUANTIZE keep its rounding"),
        ("--quantize_onnx_fq_model", "quantize a model by its ONNX QuantizeLinear and DequantizeLinear"),
    ):
        modes.add_argument(flag, action="store_true", help=text)
    options = parser.add_argument_group("options of --quantize_with_minmax")
    for side in ("input", "output"):
        text = f"one dtype for all float {side}s, or one for each: uint8, int16, int32, int64, float32, bool"
        options.add_argument(f"--{side}_type", metavar="T,T", help=text)
    text = "the result of MAX_POOL_2D gets the scale of its input"
    options.add_argument("--TF-style_maxpool", action="store_true", help=text)
    options.add_argument("--save_min_max", action="store_true", help="keep the recorded min and max")
    parser.add_argument(
        "--config", metavar="FILE",
        help="for --quantize_dequantize_weights and --quantize_with_minmax: JSON file with another dtype and "
        "granularity for some layers",
    )  # fmt: skip
    parser.add_switch(
        "--generate_profile_data",
        help="record in the metadata from which operators of the input each operator was made",
    )


def _run(arguments: argparse.Namespace) -> int:
    modes = [mode for mode in MODES if getattr(arguments, mode)]
    if len(modes) != 1:
        flags = ", ".join(f"--{mode}" for mode in MODES)
        arguments.refuse(f"expected exactly one of {flags}, got {len(modes)}")
    with one_words(arguments.input, arguments.output):
        check_output_path(arguments.output)
        model = load(arguments.input)
    check_structure(model, arguments.input)
    needs_float32_weights = modes[0] in ("quantize_dequantize_weights", "quantize_with_minmax")
    if needs_float32_weights:
        expand_weights(model)  # float16 weights become float32
    original = clone(model) if arguments.generate_profile_data else None
    _quantize(model, modes[0], arguments)
    if original is not None:
        add_profile(original, model)
    with one_words(arguments.input, arguments.output):
        save(model, arguments.output, format_of(arguments.output) or "circle")
    return 0


def _quantize(model: Model, mode: str, arguments: argparse.Namespace) -> None:
    """Quantize ``model`` in place.

    ``mode``: one of ``MODES``.  Raise UnsupportedError for an unknown dtype or granularity after its flag;
    for ``--force_quantparam``, report wrong usage and exit if scale or zero point is no number.  Raise the
    errors of ``_settings`` and of the function that does the work.
    """
    words = getattr(arguments, mode)
    match mode:
        case "quantize_dequantize_weights":
            quantize_dequantize_weights(model, _settings(words, arguments))
        case "quantize_with_minmax":
            quantize_with_minmax(model, _settings(words, arguments))
        case "quantize_weights":
            check_source(words[0], "float32")
            dtype = _supported(words[1], "output type", WEIGHT_DTYPES)
            _supported(words[2], "granularity", [CHANNEL])
            quantize_weights(model, WEIGHT_DTYPES[dtype])
        case "requantize":
            check_source(words[0], "int8")
            _supported(words[1], "output type", ["uint8"])
            requantize_int8_to_uint8(model)
        case "force_quantparam":
            force_parameters(model, [_forced(arguments, *triple) for triple in words])
        case "copy_quantparam":
            copy_parameters(model, words)
        case "fake_quantize":
            fake_quantize(model)
        case _:  # quantize_onnx_fq_model
            quantize_onnx_model(model)


def _supported(word: str, kind: str, known: Iterable[str]) -> str:
    """Return ``word`` in lower case; raise UnsupportedError with ONE's message if it is not in ``known``.

    ``kind``: the kind of ``word``, for the message: "output type" or "granularity".
    """
    if word.lower() in known:
        return word.lower()
    plural = kind.replace("type", "types")  # as in ONE, "granularity" has no plural
    raise UnsupportedError(f"Unsupported {kind} {word!r}. List of supported {plural}: {', '.join(known)}")


def _settings(words: list[str], arguments: argparse.Namespace) -> Settings:
    """Return the settings of ONE's quantizer; ``words``: the three words after the flag of a mode.

    Raise UnsupportedError for an unknown dtype or granularity, and the errors of ``read_layers``.
    """
    check_source(words[0], "float32")
    ports = {side: getattr(arguments, f"{side}_type") for side in ("input", "output")}
    types = {side: None if text is None else port_types(text, side) for side, text in ports.items()}
    return Settings(
        default=layer_setting(words[1], words[2]),
        # [{}]: no layer has a setting of its own
        layers=[{}] if arguments.config is None else read_layers(arguments.config),
        input_types=types["input"],
        output_types=types["output"],
        max_pool_keeps_scale=arguments.TF_style_maxpool,
        keeps_range=arguments.save_min_max,
    )


def _forced(arguments: argparse.Namespace, name: str, scale: str, zero_point: str) -> tuple[str, float, int]:
    """Return (name of the tensor, scale, zero point) from the three words after ``--force_quantparam``.

    Report wrong usage and exit if the scale is not a number, or the zero point is not an integer.
    """
    try:
        return name, float(scale), int(zero_point)
    except ValueError:
        message = f"--force_quantparam {name}: expected a number and an integer, got {scale!r} {zero_point!r}"
        arguments.refuse(message)
        raise  # not reached: ``refuse`` exits


main = Command("circle-quantizer", DESCRIPTION, "input output", _declare, _run, one=OneCodes())
