# SPDX-License-Identifier: Apache-2.0
"""What a pass is, from its class: for ``--list-passes --verbose`` and docs/passes.md."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from circlekit.passes.pipelines import ON_REQUEST, PIPELINES, in_order, pipeline_passes
from circlekit.rewrite.base import Pass
from circlekit.rewrite.rewrite import Rewrite, Rules

HEAD = """# Passes

Every pass is a flag of `circle2circle` and a name for `--passes`, `--disable`, `--explain` and
`circlekit.optimize`. This page is written by `python tools/gen_passes.py` from the classes in
`compiler/circlekit/passes/`; a test compares them.

A pass that is a picture shows it: what is found, and what takes its place. An attribute that is not mentioned
has its default; a value in the middle has one reader and is no output; `const` is a constant, capital letters
are sizes, `*` is any number of ones. Conditions are what a picture cannot say; `--explain PASS` prints which
one failed, with the numbers.
"""


def page(passes: Mapping[str, type[Pass]]) -> str:
    """docs/passes.md: a table of all, then one section for each."""
    lines = [HEAD, "| pass | in | what it does |", "| --- | --- | --- |"]
    lines += [f"| [{n}](#{n}) | {pipelines_of(n)} | {_cell(summary(passes[n]))} |" for n in in_order(passes)]
    for name in in_order(passes):
        lines += ["", *section(passes[name])]
    return "\n".join(lines) + "\n"


def section(item: type[Pass]) -> Iterator[str]:
    """One pass in full."""
    yield f"## {item.name}"
    yield ""
    yield from (line.rstrip() for line in inspect.cleandoc(item.__doc__ or "").splitlines())
    yield ""
    yield from (f"- {fact}" for fact in facts(item))
    for rule in rules_of(item):
        yield ""
        if rule is not item and rule.__doc__:
            yield " ".join(inspect.cleandoc(rule.__doc__).split())
            yield ""
        if rule.approximate:
            yield "Approximate: only where the pass is asked for by its name."
            yield ""
        yield "```"
        yield from _picture("before", rule.before)
        yield from _picture("after", rule.after)
        yield "```"
        yield from _conditions(rule)


def facts(item: type[Pass]) -> Iterator[str]:
    """What is to know besides: pipelines, formats, what it changes, options."""
    member = pipelines_of(item.name)
    yield (
        f"in {member}"
        if member
        else "in no pipeline"
        + "".join(f": {group.reason}" for group in ON_REQUEST if item.name in group.passes)
    )
    if len(item.formats) == 1:
        yield f"for {next(iter(item.formats))} only"
    if item.changes_values:
        yield "changes values on purpose: what it does itself is not verified"
    if item.changes_interface:
        yield "changes the interface on purpose"
    if item.undoes:
        yield f"left out of a pipeline where one of these is asked for: {', '.join(sorted(item.undoes))}"
    for option in item.options:
        yield f"`--{option.name}{' ' + option.metavar if option.metavar else ''}`: {option.help}"


def summary(item: type[Pass]) -> str:
    """The first line of the docstring."""
    return inspect.cleandoc(item.__doc__ or "").partition("\n")[0]


def pipelines_of(name: str) -> str:
    """The pipelines that have the pass, separated by blanks."""
    return " ".join(pipeline for pipeline in PIPELINES if name in pipeline_passes(pipeline))


def rules_of(item: type[Pass]) -> list[type[Rewrite]]:
    """The pictures that a pass is made of; none for a plain one."""
    if issubclass(item, Rules):
        return list(item.members())
    return [item] if issubclass(item, Rewrite) and item.before else []


def _picture(head: str, text: str) -> Iterator[str]:
    lines = textwrap.dedent(text).strip("\n").rstrip().splitlines()
    yield head
    yield from (f"    {line.strip() if len(lines) == 1 else line}".rstrip() for line in lines)


def _conditions(rule: type[Rewrite]) -> Iterator[str]:
    """Each condition: the words of its name, or what its docstring says."""
    texts = [_condition(getattr(rule, name), name) for name in rule.definition().conditions]
    if texts:
        yield ""
        yield f"Conditions: {'; '.join(texts)}."


def _condition(method: object, name: str) -> str:
    text = inspect.getdoc(method)
    return text.partition("\n")[0].rstrip(".") if text else name.replace("_", " ")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def table(passes: Mapping[str, type[Pass]], names: Iterable[str] | None = None) -> Iterator[str]:
    """A line for each pass: name, pipelines, summary."""
    chosen = in_order(passes if names is None else names)
    width = max(map(len, chosen), default=0)
    for name in chosen:
        yield f"{name:{width}}  {pipelines_of(name):2}  {summary(passes[name])}".rstrip()
