# SPDX-License-Identifier: Apache-2.0
"""A session: the log, the environment, the installation and the models that all steps of a run share.

A run is one call of a driver (one-optimize, ...) or of onecc, which runs several drivers as its steps.  A
driver does the work of some of ONE's programs, such as circle2circle, and logs it as these programs do.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, TextIO

from circlekit.errors import CirclekitError, FileError, FormatError
from circlekit.ir.graph import Model
from circlekit.toolchain.handed_models import HandedModels
from circlekit.toolchain.installation import Installation, find_installation
from circlekit.toolchain.one_words import INVALID, UNREADABLE, one_words
from circlekit.toolchain.option import DriverError, StepFailed, one_line
from circlekit.toolchain.user_paths import expanded, real_path

LOAD_FAILED, FAILED = 1, 255
"""ONE's exit codes of a program that cannot read its model, and of a program that fails otherwise."""

UNREAD = (UNREADABLE, INVALID)
"""The beginnings of messages about models that cannot be read."""


@dataclass
class Session:
    """The state that all steps of a run share.

    ``installation``: finds the programs, backends and targets that are installed beside the commands.
    ``environment``: the environment variables for other programs.
    ``verbose``: whether drivers print more (their option ``--verbose``).
    ``log``: the log file of the current step, None if there is none.
    ``models``: the models that are kept in memory for later steps.
    """

    installation: Installation = field(default_factory=find_installation)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    verbose: bool = False
    log: BinaryIO | None = None
    models: HandedModels = field(default_factory=HandedModels)

    # -- models ----------------------------------------------------------------------------------

    def load(self, path: str) -> Model:
        """Return the model in the file ``path``, from memory if an earlier step wrote the file.

        A file that has changed since that step is read again.
        Raise FileError or FormatError, in ONE's words, if the file cannot be read.  Other errors of
        ``circlekit.load``, such as ShapeError for a model as text, are raised as they are.
        """
        handed = self.models.take(path)
        if handed is not None:
            return handed
        from circlekit.api.models import load  # slow to import: drivers without a model do not wait for it

        name = expanded(path)
        with one_words(name, ""):
            return load(name)

    def save(self, model: Model, path: str, words: str = "Failed to export") -> None:
        """Write ``model`` to ``path`` as circle, whatever the extension is.

        Operators that circle lacks are replaced (legalized) first.
        ``words``: ONE's words with which the FileError begins if the file cannot be written.
        """
        from circlekit.api.models import check_output_path  # as in ``load``
        from circlekit.io.write.save import save  # as in ``load``
        from circlekit.passes.engine.legalize import legalize  # as in ``load``

        name = expanded(path)
        with one_words("", name, words):
            check_output_path(name)
            legal = legalize(model, "circle")
            save(legal, name, "circle")
        self.models.put(legal, path)

    # -- programs --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def logging(self, output: str) -> Iterator[None]:
        """Write all that the methods of this session print or log in the block to a log file.

        ``output``: the path of the driver's output; the path of the log is this path with .log appended.
        The output of programs is included if ``run`` or ``require`` runs them.
        Raise DriverError if the file cannot be written.
        """
        path = f"{real_path(output)}.log"
        try:
            # not buffered: if the disk is full, closing the file must not fail, too
            self.log = open(path, "wb", buffering=0)  # noqa: SIM115, PTH123  # closed below
        except OSError as error:
            raise _log_error(error, f"'{path}' (the log of {output})") from None
        try:
            yield
        finally:
            self.log.close()
            self.log = None

    @contextlib.contextmanager
    def program(
        self, name: str, words: Sequence[str], unread: int = LOAD_FAILED, prefix: str = ""
    ) -> Iterator[None]:
        """Run the block in place of ONE's program ``name``; turn a CirclekitError into StepFailed.

        The error is printed in one line, as that program and its driver print it.  If the error has more
        lines (the text of the model around the error), the log also gets the whole error; if ``verbose``,
        standard error gets it, too.
        ``words``: the arguments of the program, for the log.
        ``unread``: the exit code for a model that cannot be read.
        ``prefix``: what to print before the error; by default ``name``.
        """
        self.write_log(" ".join([name, *words]) + "\n")
        try:
            yield
        except StepFailed:
            raise
        except CirclekitError as error:
            begin = "" if error.message.startswith(("ERROR", UNREADABLE)) else "ERROR: "
            is_unread = isinstance(error, FileError | FormatError) and error.message.startswith(UNREAD)
            self.report(begin + one_line(error), prefix=prefix or name)
            if "\n" in str(error):
                (self.report if self.verbose else self.write_log)(f"{error}\n")
            raise StepFailed(name, unread if is_unread else FAILED) from None

    def write_log(self, text: str) -> None:
        """Append ``text`` to the log, if there is one; raise DriverError if it cannot be written."""
        if self.log is None:
            return
        try:
            self.log.write(text.encode(errors="backslashreplace"))  # as standard error does
        except OSError as error:
            raise _log_error(error, f"'{self.log.name}' (the log)") from None

    def say(self, text: str) -> None:
        """Print ``text`` and a line end to standard output and to the log."""
        self.write_log(f"{text}\n")
        print(text, flush=True)

    def report(self, text: str, prefix: str = "") -> None:
        """Print the lines of ``text`` to standard error and to the log, each with ``prefix`` before it."""
        for line in text.splitlines():
            line = f"{prefix}: {line}" if prefix else line
            self.write_log(f"{line}\n")
            print(line, file=sys.stderr, flush=True)

    def run(self, words: Sequence[str], prefix: str = "", *, is_listed: bool = True) -> int:
        """Run another program; print and log its output; return its exit code.

        If signal N ends the program, the exit code is 128 + N, as in shells.
        ``words``: its command line.  ``prefix``: what to print before each line of its standard error.
        ``is_listed``: whether the command line is written to the log.
        Raise DriverError if the program cannot be started or the log cannot be written.
        """
        if is_listed:
            self.write_log(" ".join(words) + "\n")
        try:
            process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment
            )
        except OSError as error:
            raise DriverError(type(error).__name__, f"{words[0]}: {error.strerror}") from None
        # a thread reads standard error, because a full pipe would stop the program
        with process, ThreadPoolExecutor(1) as thread:
            errors = thread.submit(self._forward, process.stderr, sys.stderr, prefix)
            self._forward(process.stdout, sys.stdout, "")
            errors.result()
        code = process.returncode
        return 128 - code if code < 0 else code  # less than 0: minus the number of a signal

    def require(self, words: Sequence[str], prefix: str = "") -> None:
        """Run another program as ``run`` does; raise StepFailed if it fails."""
        code = self.run(words, prefix)
        if code:
            raise StepFailed(words[0], code)

    def _forward(self, source: IO[bytes] | None, target: TextIO, prefix: str) -> None:
        """Copy the lines of ``source``, each with ``prefix`` before it, to ``target`` and the log."""
        assert source is not None
        with source:  # after an error it must be closed, or the program would wait for a reader
            for line in source:
                text = (f"{prefix}: " if prefix else "") + line.decode(errors="replace")
                target.write(text)
                target.flush()
                self.write_log(text)

    @contextlib.contextmanager
    def intermediate(self, values: Mapping[str, object]) -> Iterator[Path]:
        """Yield the folder for the intermediate files of a driver.

        It is the folder of the output if the option ``save_intermediate`` is set, else a temporary folder.
        ``values``: the driver's options by name.
        """
        if values.get("save_intermediate"):
            yield Path(real_path(values["output_path"])).parent
            return
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


def _log_error(error: OSError, log: str) -> DriverError:
    """Return the error for a ``log``, a path with its description, that cannot be written."""
    return DriverError(type(error).__name__, f"{error.strerror}: {log}")
