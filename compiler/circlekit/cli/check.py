# SPDX-License-Identifier: Apache-2.0
"""circlekit check and circle-check: list the operators of models that a runtime cannot run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from circlekit.api.checking import check
from circlekit.api.models import load
from circlekit.cli.arguments import MODEL_HELP, Parser, add_target
from circlekit.cli.command import FAILED, Command, for_each_file
from circlekit.cli.output.json_text import json_of_each
from circlekit.cli.output.terminal import paragraph, printable
from circlekit.cli.result import source_name, source_of
from circlekit.errors import UnsupportedError
from circlekit.ir.graph import Model
from circlekit.passes.engine.remedies import optimized_delegation
from circlekit.targets.delegation import Delegation, find_delegation
from circlekit.targets.target import DEFAULT_TARGETS, Target, target_names
from circlekit.targets.target_choice import choose_targets
from circlekit.targets.unsupported import Finding

INDENT = "    "

JSON_SCHEMA_VERSION = 1
"""The version of the JSON document (docs/guide/targets.md); a change that breaks readers increases it."""


def _declare(parser: Parser) -> None:
    parser.add_argument("models", nargs="+", metavar="model", help=f"{MODEL_HELP}; - is the standard input")
    defaults = ", ".join(f"{name} for .{format}" for format, name in DEFAULT_TARGETS.items())
    add_target(parser, f"the runtimes: {', '.join(target_names())} (default: {defaults})")
    parser.add_format("check for the default target of this format (default: the format of each model)")
    parser.add_switch("--json", help="print the findings as JSON; an array for several models")
    parser.add_switch("-q", "--quiet", help="print nothing but errors")


def _run(arguments: argparse.Namespace) -> int:
    documents = for_each_file(arguments.models, lambda path: _check(path, arguments))
    failed = sum(not document.get("pass", False) for document in documents)  # an error has no "pass"
    if arguments.json and not arguments.quiet:
        print(json_of_each(documents))
    elif len(documents) > 1 and not arguments.quiet:
        print(f"{len(documents)} models: {len(documents) - failed} run, {failed} do not")
    return FAILED if failed else 0


def _check(path: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Check the model at ``path`` for the targets; return the findings as JSON types.

    Unless --json or --quiet is given, also print the findings.  Raise UnsupportedError if there is no target.
    """
    model = load(source_of(path))
    path = source_name(path)
    targets = choose_targets(arguments.target, arguments.format or model.format)
    if not targets:
        raise UnsupportedError(f"{path}: there is no target to check for; --target names one")
    findings = check(model, targets)
    names = [target.name for target in targets]
    delegations = {target.name: found for target in targets if (found := _delegations(model, target))}
    if not arguments.json and not arguments.quiet:
        for finding in findings:
            _print_finding(finding, several=len(arguments.models) > 1, path=path)
        verdicts = "; ".join(_verdict(model, target, findings) for target in targets)
        print(*paragraph(printable(f"{path}: {verdicts}")), sep="\n")
        for target in targets:
            if target.name in delegations:
                now, later = delegations[target.name]
                delegate = "its delegate" if len(names) == 1 else f"the delegate of {target.title}"
                where = "of the main graph, " if len(model.graphs) > 1 else ""
                text = f"{where}{delegate} runs {now}; after --O1 --target {target.name} {later}"
                print(*paragraph(text, INDENT), sep="\n")
    return {
        "schema": JSON_SCHEMA_VERSION,
        "file": path,
        "format": model.format,
        "targets": names,
        "pass": not findings,
        "findings": [finding.document() for finding in findings],
        "delegated": {
            name: {"now": now.document(), "after_O1": later.document()}
            for name, (now, later) in delegations.items()
        },
    }


def _verdict(model: Model, target: Target, findings: Sequence[Finding]) -> str:
    """Return whether ``target`` runs ``model``, in words: how many operators it cannot run.

    ``findings``: those of all targets.
    """
    own = [finding for finding in findings if finding.target == target.name]
    if not own:
        return f"{target.title} runs it"
    count = len({(finding.graph, finding.index) for finding in own if finding.is_operator})
    total = sum(1 for _ in model.ops())
    # if all operators run, the findings are about inputs and outputs: the target cannot run the model
    return f"{target.title} cannot run {f'{count} of {total} operators' if count else 'it'}"


def _delegations(model: Model, target: Target) -> tuple[Delegation, Delegation] | None:
    """Return how many operators of the main graph the delegate of ``target`` runs: (now, after O1).

    "Now" means ``model`` as it is, without legalization; the findings are about the same model.
    A delegate, such as XNNPACK, is an engine that runs some of the operators in place of the runtime's own.
    Return None if the target has no delegate.
    """
    now, later = find_delegation(model.main, target), optimized_delegation(model, target)
    return None if now is None or later is None else (now, later)


def _print_finding(finding: Finding, several: bool, path: str) -> None:
    """Print place, reason and remedy; ``several``: whether to begin with the ``path`` of the model."""
    place = f"{path} > " if several else ""
    print(printable(f"{place}{finding.where}"))
    for text in (finding.reason, f"remedy: {finding.remedy}"):
        print(*paragraph(printable(text), INDENT), sep="\n")


main = Command(
    "circle-check",
    "List the operators that a runtime cannot run. Exits with 1 if a model cannot be run or read.",
    "model ...",
    _declare,
    _run,
)
