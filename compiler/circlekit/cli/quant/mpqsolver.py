# SPDX-License-Identifier: Apache-2.0
"""circle-mpqsolver: quantize a model to uint8, and to int16 where uint8 is too inexact, with ONE's flags."""

from __future__ import annotations

import argparse
from pathlib import Path

from circlekit.api.models import check_output_path, refuse_overwriting
from circlekit.cli.arguments import Parser, add_model_flags, finite_number, output_path
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.one.one_files import load_model, save_model
from circlekit.cli.output.terminal import printable
from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import i16
from circlekit.quant.mixed.mpqsolver import Configuration, Solver, pattern_setting
from circlekit.quant.mixed.one_patterns import ONE_PATTERNS
from circlekit.quant.one.settings import Settings, layer_setting, port_types
from circlekit.toolchain.mpqsolver_output import SearchFiles, heading
from circlekit.toolchain.mpqsolver_search import bisect, read_visq_file

DESCRIPTION = """Quantize a float model to uint8, and the operators that need it to int16, as ONE does.

The ranges of the tensors must be recorded in the model (record-minmax). --bisection makes operators near the
inputs (true) or near the outputs (false) int16: as few as it finds for the allowed error. With auto, the
errors of --visq_file decide between the two. --patterns makes the operators of named patterns int16.

DATA are samples, as for record-minmax."""

SIDES = {"true": True, "false": False, "auto": None}
"""{value of ``--bisection``: where the int16 operators are}.

True: near the inputs.  False: near the outputs.  None: the errors that visq wrote decide.
"""


def _declare(parser: Parser) -> None:
    add_model_flags(parser)
    parser.add_argument("--data", metavar="DATA", help="the samples of --bisection")
    parser.add_argument(
        "--data_format", default="h5", metavar="FORMAT",
        help="h5 (default), list or directory, as for record-minmax",
    )  # fmt: skip
    parser.add_argument("--bisection", metavar="SIDE", help="int16 near the inputs: true, false or auto")
    parser.add_argument(
        "--qerror_ratio", type=finite_number, default=0.5, metavar="R",
        help="allowed error: E16 + R * (E8 - E16), where E16 is the error of the model in int16, and E8 in "
        "uint8; R is 0 to 1 (default: 0.5)",
    )  # fmt: skip
    parser.add_argument(
        "--visq_file", metavar="FILE", help="errors of tensors, as visq writes them; for --bisection auto"
    )
    parser.add_argument(
        "--save_intermediate", type=output_path, metavar="FOLDER", help="write all tried models and errors"
    )
    parser.add_switch("--patterns", help="make the operators int16 that the next two flags select")
    parser.add_switch("--u8_layernorm_with_s16_variance", help="operators for the variance of layer norms")
    parser.add_switch("--u8_softmax_with_s16_sub_exp", help="subtraction and exponential of softmaxes")
    for side in ("input", "output"):
        parser.add_argument(
            f"--{side}_dtype", default="uint8", metavar="T,T",
            help=f"one dtype for all {side}s, or one for each (default: uint8)",
        )  # fmt: skip
    parser.add_argument("--quantized_dtype", default="uint8", metavar="T",
        help="dtype of operators outside of the patterns: uint8 (default) or int16; --bisection mixes both",
    )  # fmt: skip
    parser.add_argument(
        "--granularity", default="channel", metavar="G",
        help="granularity of uint8 weights: channel (default) or layer; of int16 weights it is channel",
    )  # fmt: skip
    parser.add_switch("--TF-style_maxpool", help="the result of MAX_POOL_2D gets its input's scale")
    parser.add_switch("--save_min_max", help="keep the recorded min and max")


def _run(arguments: argparse.Namespace) -> int:
    check_output_path(arguments.output_model)
    refuse_overwriting(arguments.input_model, arguments.output_model)
    if arguments.bisection is not None and arguments.patterns:
        raise UnsupportedError("only one method is allowed to use: --bisection or --patterns")
    if arguments.bisection is None and not arguments.patterns:
        raise UnsupportedError("Unrecognized solver: expected --bisection or --patterns")
    settings = _settings(arguments)
    model = load_model(arguments.input_model)
    print(*map(printable, heading(vars(arguments), is_bisection=not arguments.patterns)), sep="\n")
    solver = Solver(model, settings)
    folder = arguments.save_intermediate
    files = SearchFiles(Path(folder), arguments.input_model) if folder else None
    if arguments.patterns:
        configuration = solver.patterns([name for name in ONE_PATTERNS if getattr(arguments, name)])
        if files is not None:
            files.end(configuration)
    else:
        configuration = _bisect(solver, arguments, files)
    quantized = solver.quantized(configuration)
    if configuration.default.dtype is not i16:  # with i16, all operators are int16, not only the raised ones
        print(f"int16 operators: {len(configuration.raised)} of {len(list(model.main))}")
    print(printable(f"Saving output model to {arguments.output_model}"))
    save_model(quantized, arguments.output_model)
    return 0


def _settings(arguments: argparse.Namespace) -> Settings:
    """Return ONE's quantizer settings for the flags; raise UnsupportedError for an unknown word.

    A bisection compares uint8 and int16.  So its default dtype is uint8; ``--quantized_dtype`` is checked,
    but has no effect.
    """
    default = pattern_setting(arguments.quantized_dtype, arguments.granularity)  # checks the words
    return Settings(
        default=default if arguments.patterns else layer_setting("uint8", arguments.granularity),
        input_types=port_types(arguments.input_dtype, "input"),
        output_types=port_types(arguments.output_dtype, "output"),
        max_pool_keeps_scale=arguments.TF_style_maxpool,
        keeps_range=arguments.save_min_max,
    )


def _bisect(solver: Solver, arguments: argparse.Namespace, files: SearchFiles | None) -> Configuration:
    """Print the settings of the bisection, and return the configuration that it finds.

    ``files``: where the steps are written; None: nowhere.
    Raise UnsupportedError for a wrong word after ``--bisection``, without ``--data``, and for auto without
    ``--visq_file``.  Raise the errors of ``read_visq_file`` and ``bisect``.
    """
    side = arguments.bisection.lower()
    if side not in SIDES:
        raise UnsupportedError(
            f"Unrecognized option for bisection algorithm: expected true, false or auto, got {side!r}"
        )
    if arguments.data is None:
        raise UnsupportedError("--bisection needs samples: give --data")
    if side == "auto" and arguments.visq_file is None:
        raise UnsupportedError("please provide visq_file for auto mode: --visq_file FILE, written by visq")
    errors = read_visq_file(arguments.visq_file) if side == "auto" else None
    data, data_format, ratio = arguments.data, arguments.data_format, arguments.qerror_ratio
    return bisect(solver, data, data_format, ratio, SIDES[side], errors, files)


main = Command(
    "circle-mpqsolver",
    DESCRIPTION,
    "--input_model MODEL --output_model MODEL",
    _declare,
    _run,
    one=OneCodes(failed=1, usage=1),
)
