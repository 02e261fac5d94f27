# SPDX-License-Identifier: Apache-2.0
"""circlekit SUBCOMMAND ...: find and run the sub-command, or print the page that lists all sub-commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from circlekit.cli.arguments import Parser
from circlekit.cli.command import Command
from circlekit.cli.output.terminal import printable
from circlekit.errors import did_you_mean
from circlekit.ir.text.columns import format_definitions
from circlekit.toolchain.process_exit import INTERRUPTED, USAGE_ERROR

GROUPS: dict[str, dict[str, str]] = {
    "change a model": {
        "optimize": "Optimize a circle or TFLite model.",
        "convert": "Write a model in another format.",
        "resize": "Give the inputs of a model other shapes.",
        "extract": "Cut a submodel out of a model.",
        "partition": "Divide a model into parts for several backends.",
        "merge": "Join several models into one.",
        "run-all": "Run a pipeline or a command on all models of a folder.",
        "reduce": "Find the smallest model on which a command still succeeds.",
    },
    "quantize a model": {
        "quantize": "Quantize a float model.",
        "calibrate": "Run a model on samples; write the tensors' ranges.",
        "fake-quantize": "Put FAKE_QUANT operators into a float model.",
    },
    "look into a model": {
        "run": "Run a model with circlekit's interpreter; print its outputs.",
        "compare": "Compare the outputs of two models; exit with 1 if they differ.",
        "inspect": "Summarize models: interface, operators, size, cost.",
        "dump": "Print a whole model file.",
        "check": "List the operators that a runtime cannot run.",
        "report": "Show a model, or what a change did to it, as an HTML page.",
        "view": "Open a model in Netron or Model Explorer, if installed.",
        "explain": "Say why passes did not rewrite a model, or an operator of it.",
        "verify": "Check the bytes of model files and the models in them.",
    },
    "recipes, passes, shell": {
        "recipe": "Make a model from a recipe, or a recipe from a model.",
        "dredd": "Run tests that are written as recipes.",
        "passes": "List the passes in groups, or describe one.",
        "completion": "Print a script for completion in a shell.",
    },
}
"""{heading of the help page: {sub-command: first sentence of its description}}.

The sentences are repeated here, because importing all commands for the help page would be slow.
"""

SUMMARIES = {name: text for group in GROUPS.values() for name, text in group.items()}
"""The first sentence of the description of each sub-command, by name."""


def find(name: str) -> Command:
    """Return the sub-command ``name``; import only the module that defines it.

    Raise KeyError if there is no such sub-command.
    """
    match name:
        case "optimize":
            from circlekit.cli.optimize import optimize as command
        case "convert":
            from circlekit.cli.optimize import convert_command as command
        case "quantize":
            from circlekit.cli.quant.quantize import quantize_command as command
        case "resize":
            from circlekit.cli.structure.resize import resize_command as command
        case "extract":
            from circlekit.cli.structure.submodel import extract_command as command
        case "merge":
            from circlekit.cli.structure.submodel import merge_command as command
        case "run-all":
            from circlekit.cli.run_all import run_all as command
        case "partition":
            from circlekit.cli.structure.partition import partition_command as command
        case "reduce":
            from circlekit.cli.recipes.circle_reduce import main as command
        case "calibrate":
            from circlekit.cli.quant.calibrate import calibrate_command as command
        case "fake-quantize":
            from circlekit.cli.quant.fake_quantize import fake_quantize_command as command
        case "run":
            from circlekit.cli.run_model import run_command as command
        case "compare":
            from circlekit.cli.compare import compare_command as command
        case "inspect":
            from circlekit.cli.inspection import circle_inspect as command
        case "dump":
            from circlekit.cli.dump import circledump as command
        case "check":
            from circlekit.cli.check import main as command
        case "report":
            from circlekit.cli.report import main as command
        case "view":
            from circlekit.cli.view import main as command
        case "explain":
            from circlekit.cli.explain import main as command
        case "verify":
            from circlekit.cli.inspection import circle_verify as command
        case "recipe":
            from circlekit.cli.recipes.chefs import recipe as command
        case "dredd":
            from circlekit.cli.recipes.dredd import main as command
        case "passes":
            from circlekit.cli.pass_list import passes as command
        case "completion":
            command = _completion
        case _:
            raise KeyError(name)
    return replace(command, name=f"circlekit {name}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sub-command that the first argument names; return the exit code."""
    words = sys.argv[1:] if argv is None else argv
    # move flags behind the sub-command, and drop --; circlekit help optimize = circlekit optimize --help
    first = list(takewhile(("help", "-V", "--verbose", "--").__contains__, words))
    flags = ["--help" if word == "help" else word for word in first if word != "--"]
    rest = words[len(first) :]
    words = [*rest[:1], *flags, *rest[1:]]
    if words and words[0] in SUMMARIES:
        try:
            # one=None: the errors and exit codes of circlekit, also for a command that ONE has
            command = replace(find(words[0]), one=None)
        except KeyboardInterrupt:  # while ``find`` imports the command
            print("interrupted", file=sys.stderr)
            return INTERRUPTED
        return command(words[1:])
    return _front_door(words)


def _page() -> str:
    """Return the text of the help page."""
    lines = ["Optimize, check and understand .circle and .tflite models."]
    width = max(map(len, SUMMARIES))
    for heading, group in GROUPS.items():
        rows = [(name.ljust(width), text) for name, text in group.items()]
        lines += ["", f"{heading}:", format_definitions(rows, indent="  ")]
    return "\n".join([*lines, "", "circlekit SUBCOMMAND --help says more."])


def _declare(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.set_defaults(format_help=parser.format_help)


def _run(arguments: argparse.Namespace) -> int:
    """Report that the arguments do not begin with a sub-command; without arguments, print the help page."""
    if not arguments.words:
        sys.stderr.write(arguments.format_help())
        return USAGE_ERROR
    word = arguments.words[0]
    is_file = Path(word).is_file()
    hint = f"; did you mean circlekit inspect {word}?" if is_file else did_you_mean(word, SUMMARIES, 3)
    message = f"there is no sub-command {word!r}{hint} (circlekit --help lists the sub-commands)"
    print(f"error: {printable(message)}", file=sys.stderr)
    return USAGE_ERROR


_front_door = Command("circlekit", _page(), "SUBCOMMAND ...", _declare, _run, limits=False)


# -- circlekit completion ----------------------------------------------------------------------

COMPLETION_DESCRIPTION = """Print a script for completion in a shell.

For bash, put this line into ~/.bashrc:

    eval "$(circlekit completion bash)"

For zsh, write the script into a folder of $fpath:

    circlekit completion zsh > ~/.zfunc/_circlekit"""


def _declare_completion(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh"), help="the shell for which to print the script")


def _print_completion(arguments: argparse.Namespace) -> int:
    from circlekit.cli.completion import completion_script

    print(completion_script(arguments.shell, {name: find(name) for name in SUMMARIES}, SUMMARIES))
    return 0


_completion = Command(
    "circlekit completion",
    COMPLETION_DESCRIPTION,
    "bash|zsh",
    _declare_completion,
    _print_completion,
    limits=False,
)
