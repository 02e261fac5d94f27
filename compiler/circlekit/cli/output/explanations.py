# SPDX-License-Identifier: Apache-2.0
"""Print the explanations of passes and operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from circlekit.cli.output.terminal import printable, text_columns
from circlekit.errors import counted
from circlekit.ir.text.columns import wrapped
from circlekit.passes.engine.explanation import Explanation, OpExplanation, places

MAX_OPERATORS = 5
"""The largest number of operators that the printed text explains; ``--json`` has all."""


def print_explanations(passes: Sequence[Explanation], operators: Sequence[OpExplanation]) -> None:
    """Print explanations as wrapped paragraphs with empty lines between them.

    Of several passes, only those with something to report get a text (see ``_blocks``).
    """
    blocks = [*_blocks(passes), *map(str, operators[:MAX_OPERATORS])]
    if len(operators) > MAX_OPERATORS:
        blocks.append(
            f"{counted(len(operators) - MAX_OPERATORS, 'more operator')} of this kind; --json has all"
        )
    width = text_columns()
    for number, block in enumerate(blocks):
        if number:
            print()
        for line in printable(block).splitlines():
            print(*_wrapped(line, width), sep="\n")


def _blocks(passes: Sequence[Explanation]) -> Iterator[str]:
    """Yield the texts about passes.

    For a single pass, yield its text.  For several passes, yield:

    1. the text of each pass that rewrote something, has a near miss or ``is_prevented``
    2. a list of those other passes that would rewrite something if each ran alone
    3. the number of the passes that are left

    The texts 2 and 3 are left out if there are no such passes.
    """
    if len(passes) <= 1:
        yield from map(str, passes)
        return
    shown = [item for item in passes if item.rewrote or item.has_near_miss or item.is_prevented]
    yield from map(str, shown)
    rest = [explanation for explanation in passes if explanation not in shown]
    would = [f"{item.pass_name} ({places(item.would_rewrite)})" for item in rest if item.would_rewrite]
    if would:
        yield f"these passes would rewrite something if run alone: {', '.join(would)}"
    if count := len(rest) - len(would):
        others = "1 other pass has" if count == 1 else f"{count} other passes have"
        yield f"{others} nothing to say: neither a rewrite nor a near miss"


def _wrapped(line: str, width: int) -> list[str]:
    """Return ``line`` in lines of at most ``width`` characters; indent all but the first by 6 more spaces.

    Only a long word makes a line longer.
    """
    indent = line[: len(line) - len(line.lstrip())]
    return wrapped(line, width, indent, indent + " " * 6)
