# SPDX-License-Identifier: Apache-2.0
"""What circle2circle does: its flags, and one run."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from circlekit.cli.catalog import Flags, catalog, catalog_of_classes
from circlekit.cli.common import Parser, add_limits, flag_key, run_command
from circlekit.cli.pass_flags import add_pass_flags, asked_passes, list_passes, names, pass_name, settings_in
from circlekit.ir.entry_points import PASSES, may_exist

if TYPE_CHECKING:
    from circlekit.api import Options
    from circlekit.cli.progress import ProgressLine

DESCRIPTION = "Optimize a circle or TFLite model; the order of the flags has no effect."


def optimize(words: Sequence[str]) -> int:
    """circle2circle with the arguments ``words``; returns its exit code."""
    return run_command(partial(_parser, words), words, _run)


def _parser(words: Sequence[str] = ()) -> Parser:
    """``words``: the arguments; passes, and packages that have some, are looked up if these may name one."""
    parser = Parser("circle2circle", DESCRIPTION, "input output")
    parser.add_argument("input", nargs="?", help="a .circle or .tflite file, or a model written as text")
    parser.add_argument("output", nargs="?", help="the file to write; its extension says the format")
    parser.add_argument(
        "-o", dest="format", choices=("circle", "tflite"), help="format, if the name says none"
    )
    known = catalog()
    _add_choices(parser, known.pipelines)
    _add_proofs(parser)
    _add_quirks(parser)
    add_limits(parser)
    is_help = bool(_flags(words) & {"-h", "--help", "--list-passes"})
    if not is_help and _are_known(parser, words):
        return parser  # a copy of a file is not to wait for passes
    group = parser.add_argument_group("passes")
    add_pass_flags(group, known.passes)
    if not _are_known(parser, words) or (is_help and may_exist(PASSES)):
        add_pass_flags(group, _others(known.passes))
    return parser


def _others(known: Iterable[Flags]) -> list[Flags]:
    """The passes of other packages, and those of ours that are so new that the catalog lacks them."""
    from circlekit.passes.plugins import load_plugins

    load_plugins()
    names = {item.name for item in known}
    return [item for item in catalog_of_classes().passes if item.name not in names]


def _are_known(parser: Parser, words: Iterable[str]) -> bool:
    """Whether ``parser`` has every flag among ``words``."""
    return _flags(words) <= {flag_key(flag) for flag in parser.flags}


def _flags(words: Iterable[str]) -> set[str]:
    return {flag_key(word.partition("=")[0]) for word in words if word.startswith("-")}


def _add_choices(parser: Parser, pipelines: Iterable[str]) -> None:
    """What to run."""
    for name in pipelines:
        parser.add_argument(
            f"--{name}", action="append_const", dest="flags", const=name, help=f"all of {name}"
        )
    parser.add_argument(
        "--passes", type=names, default=[], metavar="P,P", help="these passes and pipelines, in this order"
    )
    parser.add_argument("--pipeline", metavar="FILE.toml", help="passes and their settings from a file")
    parser.add_argument(
        "--disable", type=pass_name, action="append", default=[], metavar="PASS", help="all but this"
    )
    parser.add_argument(
        "--list-passes", action="store_true", help="list the passes (with -V their pictures) and leave"
    )


def _add_proofs(parser: Parser) -> None:
    """What to be told of it."""
    parser.add_argument(
        "--verify", action="store_true", help="run before and after every pass, fail if it differs"
    )
    parser.add_argument(
        "--bisect",
        action="store_true",
        help="verify, and if it differs name the guilty rewrite; OUTPUT.bisect.ck shows it",
    )
    parser.add_argument("--record", metavar="DIR", help="verify, and keep what was compared as HDF5 files")
    parser.add_argument(
        "--explain", type=pass_name, metavar="PASS", help="say why this pass leaves things alone"
    )


def _add_quirks(parser: Parser) -> None:
    """What the peer has besides passes."""
    parser.add_argument(
        "--generate_profile_data",
        action="store_true",
        help="write into the metadata which operators of the input each one stands for",
    )
    parser.add_argument(
        "--disable_validation", action="store_true", help="work on a model that breaks structural rules, too"
    )
    parser.add_argument("--mute_warnings", action="store_true", help="print no warnings and no notes")
    parser.add_argument(
        "--exp_disable_sep_transposeconv_actfunc",
        action="store_true",
        help="keep the activation in a TransposeConv of a .circle file, which ONE's runtime does not apply",
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.list_passes:
        return list_passes(arguments.verbose)
    if arguments.input is None or arguments.output is None:
        _parser().error("an input and an output are wanted")
    import warnings

    from circlekit.api import convert
    from circlekit.cli.progress import ProgressLine
    from circlekit.cli.table import print_refusals, print_report

    with ProgressLine() as progress, warnings.catch_warnings():
        if arguments.mute_warnings:
            warnings.simplefilter("ignore")
        report = convert(arguments.input, arguments.output, _options(arguments, progress), arguments.format)
    if arguments.mute_warnings:
        report.notes.clear()
    if arguments.explain is not None:
        print_refusals(arguments.explain, report.refusals)
    print_report(report)
    return 0


def _options(arguments: argparse.Namespace, progress: ProgressLine) -> Options:
    from circlekit.api import Options, read_pipeline
    from circlekit.passes.pipeline_file import Pipeline

    written = Pipeline() if arguments.pipeline is None else read_pipeline(arguments.pipeline)
    return Options(
        passes=[*written.passes, *arguments.passes, *asked_passes(arguments)],
        disable=[*written.disable, *arguments.disable],
        settings={**written.settings, **settings_in(arguments)},
        verify=arguments.verify,
        record=arguments.record,
        explain=arguments.explain,
        bisect=f"{arguments.output}.bisect.ck" if arguments.bisect else None,
        validate=not arguments.disable_validation,
        profile=arguments.generate_profile_data,
        keep_activations=arguments.exp_disable_sep_transposeconv_actfunc,
        progress=progress,
    )
