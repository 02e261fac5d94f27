# SPDX-License-Identifier: Apache-2.0
"""circle2circle, circle2tflite and tflite2circle: optimize a model, or write it in the other format.

circle2circle has a flag for every pass and for every setting of a pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from circlekit.api.options import Options, read_pipeline
from circlekit.cli.arguments import MODEL_HELP, Parser, add_inputs, add_target, argument_type, output_path
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.pass_list import print_passes
from circlekit.cli.result import (
    NO_PASS_HINT,
    PIPE,
    add_result_flags,
    run_conversion,
    run_conversion_as_one_does,
)
from circlekit.passes.engine.describe import summary
from circlekit.passes.engine.pipeline_file import Pipeline
from circlekit.passes.engine.registry import all_passes, every_pass, find_pass, pass_names
from circlekit.passes.pipelines import PIPELINES, in_order
from circlekit.rewrite.base import Pass


def _declare(parser: Parser) -> None:
    parser.add_argument("input", nargs="?", help=MODEL_HELP)
    parser.add_argument(
        "output", nargs="?", help="the file to write; circle, unless it ends in .tflite or .lite"
    )
    parser.add_format("format of the output")
    add_result_flags(parser)
    add_optimization_flags(parser)


def add_optimization_flags(parser: Parser, *, list_flags: bool = True) -> None:
    """Add the flags that ``options_of`` and ``print_passes_if_asked`` read.

    ``list_flags``: whether the help lists the flags of passes and the flags of ONE.
    """
    parser.set_defaults(hint=NO_PASS_HINT)
    _add_flags(parser)
    _add_one_flags(parser, list_flags)
    pointer = "As in circle2circle, every pass has a flag of its name. circlekit passes lists the passes."
    group = parser.add_argument_group("passes", None if list_flags else pointer)
    passes = all_passes()
    add_pass_flags(group, passes, list_flags)
    # importing the passes of other packages is slow: the parser does it only for help or an unknown flag
    parser.load_flags = lambda: add_pass_flags(
        group, {name: found for name, found in every_pass().items() if name not in passes}, list_flags
    )


def _add_flags(parser: Parser) -> None:
    for name in PIPELINES:
        parser.add_argument(
            f"--{name}", action="append_const", dest="flags", const=name, help=f"run the pipeline {name}"
        )
    parser.add_argument(
        "--passes",
        action="extend",
        type=parse_passes,
        default=[],
        metavar="P,P",
        help="run these passes and pipelines, in this order",
    )
    parser.add_argument("--pipeline", metavar="FILE.toml", help="read passes and their settings from a file")
    parser.add_argument(
        "--disable", type=parse_pass, action="append", default=[], metavar="PASS", help="do not run this pass"
    )
    parser.add_switch("--verify", help="compare the outputs before and after every pass; fail if they differ")
    add_inputs(parser, purpose="verify on the inputs")
    add_target(parser)
    parser.add_switch(
        "--bisect",
        help="verify; if outputs differ, name the rewrite that is wrong, and write the smallest model that"
        " shows it to OUTPUT.bisect.ck (model.bisect.ck if OUTPUT is -)",
    )
    parser.add_argument(
        "--record", type=output_path, metavar="DIR", help="verify, and keep the compared values as HDF5 files"
    )
    parser.add_argument(
        "--explain", type=parse_pass_or_all, metavar="PASS",
        help="say what PASS rewrote, and why it did not rewrite more; all: explain every pass, first those"
        " that came nearest to one more rewrite",
    )  # fmt: skip
    parser.add_argument(
        "--explain-op", metavar="OP",
        help="say which passes almost rewrote an operator of the optimized model; OP is %%NAME of its result,"
        " or a kind, such as TRANSPOSE",
    )  # fmt: skip


def _add_one_flags(parser: Parser, listed: bool) -> None:
    """Add ``--list-passes`` and the flags of ONE's circle2circle; ``listed``: show them in the help."""
    list_passes = "list the passes (with -V in full), or describe PASS, and exit"
    parser.add_argument(
        "--list-passes", nargs="?", const=(), type=parse_pass, metavar="PASS",
        help=list_passes if listed else argparse.SUPPRESS,
    )  # fmt: skip
    switches = {
        "--generate_profile_data":
            "for each operator of the output, record in the metadata from which operators of the input it was"
            " made",
        "--disable_validation":
            "accept a model with wrong structure or shapes; passes still need producers before users",
        "--mute_warnings": "print no warnings and no notes",
        "--exp_disable_sep_transposeconv_actfunc":
            "keep the activation fused into a TransposeConv of a .circle file; ONE's runtime does not compute"
            " such an activation",
    }  # fmt: skip
    for flag, text in switches.items():
        parser.add_switch(flag, help=text if listed else argparse.SUPPRESS)


def _run(arguments: argparse.Namespace) -> int:
    if print_passes_if_asked(arguments):
        return 0
    if arguments.input is None or arguments.output is None:
        arguments.refuse("expected an input and an output")
    options = options_of(arguments, arguments.output)
    failed = "Failed to export"  # the first words of ONE's message about a file that cannot be written
    run_conversion_as_one_does(arguments, arguments.input, arguments.output, options, failed)
    return 0


def print_passes_if_asked(arguments: argparse.Namespace) -> bool:
    """Print the passes if ``--list-passes`` is given; return whether it is given."""
    if arguments.list_passes is None:
        return False
    all_in_full = in_order(every_pass()) if arguments.verbose else []  # []: print the short list
    print_passes([arguments.list_passes] if arguments.list_passes else all_in_full)
    return True


def options_of(arguments: argparse.Namespace, output: str) -> Options:
    """Return the options of ``circlekit.convert`` for the parsed flags of ``add_optimization_flags``.

    The order of different flags has no effect.  Passes run in this order:

    1. those that the file of ``--pipeline`` names
    2. those that ``--passes`` names; the flag may be repeated
    3. those of the pipelines given as flags, such as ``--O1``
    4. those given as flags, sorted by ``in_order``

    ``output``: the path to write; the file of ``--bisect`` is named after it.
    """
    pipeline = Pipeline() if arguments.pipeline is None else read_pipeline(arguments.pipeline)
    given = ((name, value) for name, value in vars(arguments).items() if name.startswith(SETTING_PREFIX))
    settings = {name.removeprefix(SETTING_PREFIX): value for name, value in given}
    # the flag of a setting that has the name of its pass also runs the pass; passes of other packages are
    # loaded by now, because the parser has met their flags
    flags = {*(arguments.flags or ()), *(settings.keys() & all_passes().keys())}
    asked = [*sorted(flags & PIPELINES.keys()), *in_order(flags - PIPELINES.keys())]
    return Options(
        passes=[*pipeline.passes, *arguments.passes, *asked],
        disable=[*pipeline.disable, *arguments.disable],
        settings={**pipeline.settings, **settings},
        verify=arguments.verify,
        record=arguments.record,
        explain=arguments.explain,
        explain_op=arguments.explain_op,
        bisect=f"{'model' if output == PIPE else output}.bisect.ck" if arguments.bisect else None,
        validate=not arguments.disable_validation,
        profile=arguments.generate_profile_data,
        keep_activations=arguments.exp_disable_sep_transposeconv_actfunc,
        inputs=arguments.inputs,
        target=arguments.target,
    )


SETTING_PREFIX = "setting "
"""In the parsed arguments, the attribute for the setting NAME of a pass is this prefix followed by NAME."""


def add_pass_flags(group: argparse._ArgumentGroup, passes: Mapping[str, type[Pass]], listed: bool) -> None:
    """Add a flag for each pass and for each setting of a pass; ``listed``: show the flags in the help.

    A setting with the name of its pass shares one flag with the pass: the flag gives the value of the setting
    and runs the pass.
    """
    for name in in_order(passes):
        options = passes[name].options
        if all(option.name != name for option in options):
            text = summary(passes[name]).replace("%", "%%") if listed else argparse.SUPPRESS
            group.add_argument(f"--{name}", action="append_const", dest="flags", const=name, help=text)
        for option in options:
            keywords: dict[str, Any] = {"dest": SETTING_PREFIX + option.name, "default": argparse.SUPPRESS}
            keywords["help"] = option.help.replace("%", "%%") if listed else argparse.SUPPRESS
            if option.metavar:
                keywords.update(metavar=option.metavar, type=argument_type(option.parse))
            else:
                keywords["action"] = "store_true"
            group.add_argument(f"--{option.name}", **keywords)


def parse_passes(text: str) -> list[str]:
    """Return the names of passes and pipelines in the comma-separated ``text``, with ``_`` for each ``-``."""
    names = [name.strip().replace("-", "_") for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"expected names of passes, got {text!r}")
    argument_type(pass_names)(names)
    return names


def parse_pass(text: str) -> str:
    """Return the name of the pass ``text``, which may be spelled with ``-`` for ``_``."""
    return str(argument_type(find_pass)(text.replace("-", "_")).name)


def parse_pass_or_all(text: str) -> str:
    """Return "all" for "all", else the name of the pass ``text``."""
    if text == "all":
        return text
    if Path(text).is_file():  # the name was forgotten, so argparse takes the model for it
        raise argparse.ArgumentTypeError(f"expected the name of a pass, or all, got the file {text}")
    return parse_pass(text)


DESCRIPTION = "Optimize a circle or TFLite model. The order of different flags has no effect."
main = Command("circle2circle", DESCRIPTION, "input output", _declare, _run, one=OneCodes())


# -- circle2tflite, tflite2circle ---------------------------------------------------------------


def _declare_conversion(parser: Parser) -> None:
    parser.add_argument("input", help=MODEL_HELP)
    parser.add_argument("output", help=f"the .{parser.get_default('format')} file to write")
    add_result_flags(parser)
    add_verify(parser)


def add_verify(parser: Parser) -> None:
    """Add ``--verify``, ``--inputs`` and ``--target`` for a command that only changes the format."""
    parser.add_switch("--verify", help="compare the outputs before and after; fail if they differ")
    add_inputs(parser, purpose="verify on the inputs")
    add_target(parser)


def _convert(arguments: argparse.Namespace) -> int:
    options = Options(verify=arguments.verify, inputs=arguments.inputs, target=arguments.target)
    if arguments.format == "tflite":  # circle2tflite, which ONE does not have
        run_conversion(arguments, arguments.input, arguments.output, options)
    else:
        failed = "Failed to write circle"
        run_conversion_as_one_does(arguments, arguments.input, arguments.output, options, failed)
    return 0


TO_TFLITE = "Write a circle model as TFLite. Operators that TFLite lacks are replaced by others."
TO_CIRCLE = "Write a TFLite model as circle."
circle2tflite = Command("circle2tflite", TO_TFLITE, "input output", _declare_conversion, _convert, "tflite")
tflite2circle = Command(
    "tflite2circle",
    TO_CIRCLE,
    "input output",
    _declare_conversion,
    _convert,
    "circle",
    one=OneCodes(unread=255),  # unlike most commands of ONE, which return 1
)
