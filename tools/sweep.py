# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the tools that sweep over many cases: the parser of arguments, and the progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from circlekit.cli.output.progress_line import ProgressLine
from circlekit.cli.output.terminal import is_terminal
from circlekit.toolchain.process_exit import INTERRUPTED

T = TypeVar("T")


def tool_parser(name: str, page: str | None) -> argparse.ArgumentParser:
    """Return the parser of the arguments of a tool; ``page``: the text of its help, with its line breaks."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=f"tools.{name}", description=page, formatter_class=form)


class Sweep(ProgressLine):
    """The progress of a sweep over ``total`` cases, which are called ``unit``."""

    def __init__(self, total: int, unit: str) -> None:
        super().__init__(is_terminal(sys.stderr))
        self.is_interrupted = False
        self.begin("", total, unit)

    def each(self, results: Iterable[T]) -> Iterator[T]:
        """Yield ``results``, one for each case, and count those that have been consumed."""
        for result in results:
            yield result
            self.advance()

    def exit_code(self, failed: bool) -> int:
        """Return the exit code of the tool: INTERRUPTED after an interrupt, else 1 if ``failed``, else 0."""
        return INTERRUPTED if self.is_interrupted else int(failed)


@contextmanager
def sweep(total: int, unit: str) -> Iterator[Sweep]:
    """Show progress inside the block; an interrupt ends only the block, and a line says how much is done."""
    line = Sweep(total, unit)
    try:
        with line:
            yield line
    except KeyboardInterrupt:
        line.is_interrupted = True
        print(line.interrupted(), file=sys.stderr)
