# SPDX-License-Identifier: Apache-2.0
"""A user's command as interestingness test: whether a model still shows what a reduction looks for."""

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
"""Replaced by the path of the model in the words of a command; without it the path is appended."""


def write_model(model: Model, path: Path) -> None:
    """Write a model as its extension says: circle, TFLite, or the text form for any other."""
    if format_of(path):
        save(model, path)
    else:
        write_file(path, [print_model(model).encode()])


class Command:
    """Runs a command on a model; true if the command ends with exit code 0.

    ``suffix``: the extension of the file for candidates, which is in ``folder``.  ``timeout``: seconds for
    one run; a longer one is ended and counts as false.  ``note``: called with a text before every run.
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
        """FileError if the command does not exist."""
        self.runs += 1
        if self.note is not None:
            self.note(f"run {self.runs}, {len(model.main)} operators")
        write_model(model, self.path)
        silent = subprocess.DEVNULL
        try:
            done = subprocess.run(
                self.line(), stdin=silent, stdout=silent, stderr=silent, timeout=self.timeout, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        except OSError as error:
            raise FileError(f"cannot run {self.words[0]}: {error.strerror}") from None
        return done.returncode == 0

    def line(self) -> list[str]:
        """Return the command with the path of the candidate."""
        if any(PLACE in word for word in self.words):
            return [word.replace(PLACE, str(self.path)) for word in self.words]
        return [*self.words, str(self.path)]
