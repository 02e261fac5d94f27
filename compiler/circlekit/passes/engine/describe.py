# SPDX-License-Identifier: Apache-2.0
"""Describe passes as text made from their classes: the reference page in Markdown, and a short table.

A rule is a ``Rewrite``: a picture ``before``, a picture ``after`` and conditions.  A pass is a rule, a list
of rules (``Rules``), or plain code.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping

from circlekit.ir.text.columns import PAGE_COLUMNS, format_definitions, paragraphs, wrapped
from circlekit.passes.pipelines import ON_REQUEST, PIPELINES, Phase, in_order, pipeline_passes
from circlekit.rewrite.base import Pass
from circlekit.rewrite.rewrite import Rewrite, Rules

HEAD = """# Passes

Every pass is a flag of `circle2circle` and a name for `--passes`, `--disable`, `--explain` and
`circlekit.optimize`. This page is generated from the classes in `compiler/circlekit/passes/`.

A pass that is declared by pictures shows them: `before` is what it looks for, `or` another form, `after`
what replaces it. An attribute that is not mentioned must have its default. In most passes, a value inside
`before` must have no other user and must not be an output. `const` is a constant, capital letters are sizes,
`*` is any number of dimensions of 1. Conditions must hold too; `--explain PASS` prints which one did not,
with the numbers.
"""


def page(passes: Mapping[str, type[Pass]]) -> str:
    """Return the reference page in Markdown: a table of all passes, then a section for each."""
    lines = [HEAD, "| pass | in | what it does |", "| --- | --- | --- |"]
    for name in in_order(passes):
        text = summary(passes[name]).replace("|", "\\|")
        lines.append(f"| [{name}](#{name}) | {pipeline_of(name)} | {text} |")
    for name in in_order(passes):
        lines += ["", *section(passes[name])]
    return "\n".join(lines) + "\n"


def section(item: type[Pass]) -> Iterator[str]:
    """Yield the lines of the section about one pass.

    Only pictures, and lists in docstrings, may be wider than PAGE_COLUMNS.
    """
    yield f"## {item.name}"
    yield ""
    yield from paragraphs(inspect.cleandoc(item.__doc__ or ""), PAGE_COLUMNS)
    yield ""
    for fact in facts(item):
        first, *others = wrapped(fact, PAGE_COLUMNS - 2)  # "- " or "  " comes before each line
        yield f"- {first}"
        yield from (f"  {line}" for line in others)
    # rules that differ only in the picture ``before`` share one block, with one ``after``
    forms: dict[tuple[str | None, bool, str, str], list[str]] = {}
    for rule in rules_of(item):
        title = None if rule is item else rule.__doc__  # the docstring of the pass itself is shown above
        forms.setdefault((title, rule.approximate, rule.after, _conditions(rule)), []).append(rule.before)
    for (title, is_approximate, after, conditions), pictures in forms.items():
        if title:
            yield from ["", *paragraphs(inspect.cleandoc(title), PAGE_COLUMNS)]
        if is_approximate:
            yield from ["", "Approximate: applied only if the pass is asked for by name."]
        yield from ["", "```"]
        for head, picture in zip(["before", *["or"] * len(pictures)], pictures, strict=False):
            yield from _picture(head, picture)
        yield from _picture("after", after)
        yield "```"
        if conditions:
            yield from ["", *wrapped(f"Conditions: {conditions}.", PAGE_COLUMNS)]


def _conditions(rule: type[Rewrite]) -> str:
    """Return the conditions of ``rule``, with semicolons between.

    A condition is shown as the first line of its docstring; without a docstring, as its name.
    """
    names = rule.definition().conditions
    texts = [inspect.getdoc(getattr(rule, name)) or name.replace("_", " ") for name in names]
    return "; ".join(text.partition("\n")[0].rstrip(".") for text in texts)


def facts(item: type[Pass]) -> Iterator[str]:
    """Yield facts about a pass: its pipeline, format, intended changes, what it undoes, and options."""
    pipeline = pipeline_of(item.name)
    # ON_REQUEST groups the passes that are in no pipeline, with the reason
    reasons = "".join(f": {group.reason}" for group in ON_REQUEST if item.name in group.passes)
    yield f"in {pipeline}" if pipeline else f"in no pipeline{reasons}"
    if len(item.formats) == 1:
        yield f"for {next(iter(item.formats))} only"
    if item.changes_values:
        yield "changes values on purpose; verification starts again after it"
    if item.changes_interface:
        yield "changes the interface on purpose"
    if item.drops_state:
        yield "drops state that is kept from one run to the next; only first runs are verified after it"
    if item.undoes:
        yield f"pipelines leave it out if one of these is asked for: {', '.join(sorted(item.undoes))}"
    for option in item.options:
        yield f"`--{option.name}{' ' + option.metavar if option.metavar else ''}`: {option.help}"


def summary(item: type[Pass]) -> str:
    """Return the first line of the docstring of a pass."""
    return inspect.cleandoc(item.__doc__ or "").partition("\n")[0]


def pipeline_of(name: str) -> str:
    """Return the first pipeline that runs the pass ``name``; "" if none does."""
    return next((pipeline for pipeline in PIPELINES if name in pipeline_passes(pipeline)), "")


def rules_of(item: type[Pass]) -> list[type[Rewrite]]:
    """Return the rules of a pass that have pictures; an empty list for a pass that is plain code."""
    rules = item.rules if issubclass(item, Rules) else (item,)
    return [rule for rule in rules if issubclass(rule, Rewrite) and rule.before]


def _picture(head: str, text: str) -> Iterator[str]:
    """Yield ``head``, such as "before", and below it the lines of the picture ``text``, indented."""
    lines = textwrap.dedent(text).strip("\n").rstrip().splitlines()
    yield head
    yield from (f"    {line.strip() if len(lines) == 1 else line}".rstrip() for line in lines)


def table(passes: Mapping[str, type[Pass]], width: int = PAGE_COLUMNS) -> str:
    """Return the names and summaries of all passes as text, in the groups that ``groups`` yields."""
    blocks = []
    for heading, names in groups(passes):
        rows = [(name, summary(passes[name]) + _suffix(passes[name])) for name in names]
        blocks.append("\n".join([*wrapped(heading, width), format_definitions(rows, width, "  ")]))
    return "\n\n".join(blocks)


def groups(passes: Mapping[str, type[Pass]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the heading and the members of each group of ``passes``; every pass is in one group.

    The groups, in this order:

    - each phase of the pipelines; a phase of several pipelines comes once;
    - each group of ON_REQUEST;
    - passes of other packages that no pipeline runs;
    - passes that no pipeline runs and that change values; the groups before do not contain these.
    """
    listed: set[Phase] = set()
    for pipeline, phases in PIPELINES.items():
        for number, phase in enumerate(phases, 1):
            if phase not in listed:
                yield f"in {pipeline}, phase {number}: {phase.name}", [n for n in phase.passes if n in passes]
        listed.update(phases)
    rest = [name for name in in_order(passes) if not pipeline_of(name)]
    approximate = [name for name in rest if passes[name].changes_values]
    for group in ON_REQUEST:
        members = [name for name in rest if name in group.passes and name not in approximate]
        if members:
            yield f"opt-in, {group.name}: {group.reason}", members
    grouped = {name for group in ON_REQUEST for name in group.passes} | {*approximate}
    if not grouped.issuperset(rest):
        yield "opt-in, of other packages", [name for name in rest if name not in grouped]
    yield "approximate (opt-in): the result has other values on purpose", approximate


def _suffix(item: type[Pass]) -> str:
    """Return a note if a pipeline runs the pass without its approximate rules, else ""."""
    has_more = pipeline_of(item.name) and any(rule.approximate for rule in rules_of(item))
    return " (Asked for by name: approximate rewrites too.)" if has_more else ""
