# SPDX-License-Identifier: Apache-2.0
"""Run the code blocks of a Markdown page in order, in the current directory: ``page_runner.py PAGE.md``.

    ```text title="net.ck"     is written to the file net.ck and not run, whatever the language
    ```python                  is executed; all Python blocks of a page share their names
    ```pycon                   is executed and compared with the output shown, as by doctest
    ```console                 lines that begin with "$ " are commands of a shell; the output is compared, and
                               the exit code must be 0

``...`` in an expected output stands for any text, and differences of white space do not count.  The first
difference ends the run with exit code 1.
"""

from __future__ import annotations

import doctest
import linecache
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A fenced block: its language, the title in its first line, its text, the line number of the text."""

    language: str
    title: str
    text: str
    line: int


class Difference(Exception):
    """A block did not do what the page shows."""


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page that name a language."""
    found = []
    for match in FENCE.finditer(page):
        title = re.search(r'title="([^"]*)"', match[2])
        line = page.count("\n", 0, match.start()) + 2
        found.append(Block(match[1], title[1] if title else "", match[3], line))
    return found


def run_python(block: Block, names: dict[str, Any], label: str) -> None:
    """Execute a Python block; tracebacks show its lines as those of the page."""
    source = "\n" * (block.line - 1) + block.text
    linecache.cache[label] = (len(source), None, source.splitlines(keepends=True), label)
    exec(compile(source, label, "exec"), names)


def run_session(block: Block, names: dict[str, Any], label: str) -> None:
    """Execute an interactive session and compare its output."""
    test = doctest.DocTestParser().get_doctest(block.text, names, label, label, block.line - 1)
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    report: list[str] = []
    runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    if report:
        raise Difference("".join(report))


def run_commands(block: Block, label: str) -> None:
    """Run the commands of a console block, each with the output that follows it."""
    steps: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif steps:
            steps[-1][1].append(line)
        else:
            raise Difference(f"{label}:{block.line}: expected a line that begins with $, got {line}")
    checker = doctest.OutputChecker()
    for command, lines in steps:
        done = subprocess.run(
            command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
        )
        expected = "".join(line + "\n" for line in lines)
        if done.returncode != 0 or not checker.check_output(expected, done.stdout, OPTIONS):
            raise Difference(
                f"{label}:{block.line}: $ {command}\nexpected:\n{expected}\n"
                f"got (exit code {done.returncode}):\n{done.stdout}"
            )


def run_page(path: Path) -> None:
    """Write or run the blocks of a page, in order; ignore other blocks.  Raise the first Difference."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.title:
            target = Path(block.title)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            run_python(block, names, path.name)
        elif block.language == "pycon":
            run_session(block, names, path.name)
        elif block.language == "console":
            run_commands(block, path.name)


def main() -> int:
    try:
        run_page(Path(sys.argv[1]))
    except Difference as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
