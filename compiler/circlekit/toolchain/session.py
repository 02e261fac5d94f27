# SPDX-License-Identifier: Apache-2.0
"""A session: what the steps of one run share: the log, the environment, and where things are installed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, TextIO

from circlekit.errors import CirclekitError, FileError, FormatError, ParseError
from circlekit.ir.graph import Model
from circlekit.toolchain.handed_models import HandedModels
from circlekit.toolchain.installation import Installation, find_installation
from circlekit.toolchain.option import DriverError, StepFailed

LOAD_FAILED, FAILED = 1, 255
"""ONE's exit codes of a program whose model cannot be read, and of one that fails otherwise."""


@dataclass
class Session:
    """What the steps of one run share.

    ``environment``: the variables that programs are started with.  ``verbose``: whether programs and drivers
    say more.  ``log``: the open log file of the current step.  ``models``: those in memory for later steps.
    """

    installation: Installation = field(default_factory=find_installation)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    verbose: bool = False
    log: BinaryIO | None = None
    models: HandedModels = field(default_factory=HandedModels)

    # -- models ----------------------------------------------------------------------------------

    def load(self, path: str) -> Model:
        """Load a model, or take it from the step that wrote it; errors begin with ONE's words."""
        handed = self.models.take(path)
        if handed is not None:
            return handed
        from circlekit.api import load  # a driver that starts no model does not wait for it

        name = os.path.expanduser(path)  # noqa: PTH111  # messages show the path as it was given
        try:
            return load(name)
        except FileError as error:
            raise FileError(f"Failed to open file: {error.message}") from None
        except (FormatError, ParseError) as error:
            reason = error.message.removeprefix(f"{name}: ")
            raise FormatError(f"ERROR: Invalid input file '{path}': {reason}", *error.where) from None

    def save(self, model: Model, path: str, words: str = "Failed to export") -> None:
        """Write ``model`` as circle, whatever the extension says.

        ``words``: how ONE's program begins the error of a file that cannot be written.
        """
        from circlekit.api.models import check_target  # as in ``load``
        from circlekit.io.write.save import save  # as in ``load``
        from circlekit.passes.engine.legalize import legalize  # as in ``load``

        name = os.path.expanduser(path)  # noqa: PTH111  # messages show the path as it was given
        try:
            check_target(name)
            legal = legalize(model, "circle")
            save(legal, name, "circle")
        except FileError as error:
            raise FileError(f"ERROR: {words} '{path}': {error.message.removeprefix(f'{name}: ')}") from None
        self.models.put(legal, path)

    # -- programs --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def logging(self, output: str) -> Iterator[None]:
        """Write what the programs of a step print also into the file ``output``.log."""
        path = f"{os.path.realpath(os.path.expanduser(output))}.log"  # noqa: PTH111  # Path("x/") loses the slash
        try:
            self.log = open(path, "wb")  # noqa: SIM115, PTH123  # closed below
        except OSError as error:
            raise DriverError(type(error).__name__, f"{error.strerror}: '{path}'") from None
        try:
            yield
        finally:
            self.log.close()
            self.log = None

    @contextlib.contextmanager
    def program(self, name: str, words: Sequence[str], unread: int = LOAD_FAILED) -> Iterator[None]:
        """Run the block in place of ONE's program ``name``, whose command line ``words`` the log gets.

        An error is printed as that program and its driver print it; StepFailed follows.  ``unread``: the exit
        code for a model that cannot be read.
        """
        self.write_log(" ".join([name, *words]) + "\n")
        try:
            yield
        except StepFailed:
            raise
        except CirclekitError as error:
            text = str(error) if error.message.startswith(ONE_BEGINNINGS) else f"ERROR: {error}"
            is_unread = isinstance(error, FileError | FormatError) and error.message.startswith(UNREAD)
            self.report(text, prefix=name)
            raise StepFailed(name, unread if is_unread else FAILED) from None

    def write_log(self, text: str) -> None:
        """Append ``text`` to the log of the step."""
        if self.log is not None:
            self.log.write(text.encode())
            self.log.flush()

    def say(self, text: str) -> None:
        """Print a line on the standard output, and into the log."""
        self.write_log(f"{text}\n")
        print(text, flush=True)

    def report(self, text: str, prefix: str = "") -> None:
        """Print lines on the standard error, each behind ``prefix``, and into the log."""
        for line in text.splitlines():
            line = f"{prefix}: {line}" if prefix else line
            self.write_log(f"{line}\n")
            print(line, file=sys.stderr, flush=True)

    def run(self, words: Sequence[str], prefix: str = "", *, is_listed: bool = True) -> int:
        """Run another program; forward what it prints, its errors behind ``prefix``; return its exit code.

        ``is_listed``: the log begins with its command line.
        """
        if is_listed:
            self.write_log(" ".join(words) + "\n")
        try:
            process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment
            )
        except OSError as error:
            raise DriverError(type(error).__name__, f"{words[0]}: {error.strerror}") from None
        with process:
            errors = threading.Thread(target=self._forward, args=(process.stderr, sys.stderr, prefix))
            errors.start()
            self._forward(process.stdout, sys.stdout, "")
            errors.join()
        return process.returncode

    def require(self, words: Sequence[str], prefix: str = "", *, is_listed: bool = True) -> None:
        """Run another program as ``run`` does; raise StepFailed if it fails."""
        code = self.run(words, prefix, is_listed=is_listed)
        if code:
            raise StepFailed(words[0], code if code > 0 else 128 - code)

    def _forward(self, source: IO[bytes] | None, target: TextIO, prefix: str) -> None:
        for line in source or ():
            text = (f"{prefix}: " if prefix else "") + line.decode(errors="replace")
            target.write(text)
            target.flush()
            self.write_log(text)

    @contextlib.contextmanager
    def intermediate(self, values: Mapping[str, object]) -> Iterator[Path]:
        """Give a folder for files between programs; it lasts if ``save_intermediate`` is set."""
        if values.get("save_intermediate"):
            output = os.path.realpath(os.path.expanduser(str(values["output_path"])))  # noqa: PTH111  # as the log
            yield Path(output).parent
            return
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


ONE_BEGINNINGS = ("ERROR", "Failed to open file")
"""Words with which errors of ONE's programs begin; others get ``ERROR: `` in front."""

UNREAD = ("Failed to open file", "ERROR: Invalid input file")
"""Words of a model that cannot be read."""
