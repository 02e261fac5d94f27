# SPDX-License-Identifier: Apache-2.0
"""A command of the user that looks at models, and what it says of one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from circlekit.errors import FileError
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import format_of, save
from circlekit.ir.graph import Model
from circlekit.ir.text import print_model

PLACE = "{}"
"""Where in the words of a command the path of a model goes; behind them where no word has it."""


def write_model(model: Model, path: Path) -> None:
    """As a file where the extension is that of a format, else as text."""
    if format_of(path):
        save(model, path)
    else:
        write_file(path, [print_model(model).encode()])


class Command:
    """Called with a model: whether the command, run on it, ends with 0.

    ``suffix``: the extension of the candidates' files, which are in ``folder``.  ``timeout``: seconds for a
    run; one that lasts longer is ended and says no.  ``note``: is told of every run.  ``runs``: how many.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        suffix: str,
        timeout: float | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.words = list(words)
        self.path = folder / f"candidate{suffix}"
        self.timeout = timeout
        self.note = note
        self.runs = 0

    def __call__(self, model: Model) -> bool:
        """FileError where there is no such command."""
        self.runs += 1
        if self.note is not None:
            self.note(f"run {self.runs}, {len(model.main)} operators")
        write_model(model, self.path)
        try:
            done = subprocess.run(
                self.line(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=self.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        except OSError as error:
            raise FileError(f"{self.words[0]} cannot be run: {error.strerror}") from None
        return done.returncode == 0

    def line(self) -> list[str]:
        """The words, with the path of the candidate."""
        if any(PLACE in word for word in self.words):
            return [word.replace(PLACE, str(self.path)) for word in self.words]
        return [*self.words, str(self.path)]
