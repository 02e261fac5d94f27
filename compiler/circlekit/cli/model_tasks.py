# SPDX-License-Identifier: Apache-2.0
"""The work of circlekit run-all on one model: run passes, a cfg file of onecc, or a command."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from circlekit.api.options import Options, read_pipeline
from circlekit.api.rewriting import convert
from circlekit.errors import CirclekitError, FileError
from circlekit.io.write.file_writer import write_file
from circlekit.toolchain.onecc import onecc

DONE, FAILED, LOST = "done", "failed", "lost"
"""The values of ``TaskResult.status``."""

OwnCommand = Callable[[Sequence[str]], int]
"""A command of circlekit as a function: it takes the arguments and returns the exit code."""

MAX_OUTPUT_LINES = 20
"""The result of a task keeps at most this many lines of a command's output: the last ones."""


@dataclass(frozen=True)
class Task:
    """Work to do on one model.

    ``model``: the path of the model.  ``folder``: an existing folder, for the outputs.  ``pipeline`` says
    what to do; its meaning depends on ``kind``:

    * "passes": names of passes or pipelines, separated by commas, or the path of a .toml file with them and
      settings
    * "cfg": the text of a cfg file of onecc, with placeholders such as {model} (see ``filled``)
    * "command": a command line with placeholders
    """

    model: str
    folder: str
    kind: str
    pipeline: str

    def filled(self, text: str) -> str:
        """Return ``text`` with its placeholders replaced by their values.

        {model}: the path of the model.  {out}: the folder for outputs.  {name}: the file name of the model.
        {stem}: the file name without extension.  Other words in braces stay.
        """
        path = Path(self.model)
        values = {"model": self.model, "out": self.folder, "name": path.name, "stem": path.stem}
        # one search: a placeholder in a value, such as a folder named {out}, is not replaced
        return re.sub("{(model|out|name|stem)}", lambda found: values[found[1]], text)


@dataclass
class TaskResult:
    """The result of a task.

    ``model``: the path of the model.  ``status``: DONE, FAILED, or LOST if the process died at every attempt.
    ``seconds``: the time that the task took, 0 if LOST.  ``before``, ``after``: the number of operators
    before and after the task; None if unknown.  ``message``: the error, or the last lines that a command
    printed.
    """

    model: str
    status: str = DONE
    seconds: float = 0.0
    before: int | None = None
    after: int | None = None
    message: str = ""


def run_task(task: Task) -> TaskResult:
    """Run ``task`` and return the result; for any error, return a result with the status FAILED."""
    started = time.monotonic()
    try:
        result = _RUN[task.kind](task)
    except CirclekitError as error:
        result = TaskResult(task.model, FAILED, message=str(error))
    except Exception as error:  # a defect of circlekit must not stop the work on other models
        result = TaskResult(task.model, FAILED, message=f"internal error: {type(error).__name__}: {error}")
    result.seconds = time.monotonic() - started
    return result


def lost_task(task: Task, reason: str) -> TaskResult:
    """Return the result of a task whose process died at every attempt.

    ``reason``: the end of the message "the work ...", such as "was given up by the cluster".
    """
    return TaskResult(task.model, LOST, message=f"the work {reason}")


def _passes(task: Task) -> TaskResult:
    text = task.pipeline
    if Path(text).suffix == ".toml":
        pipeline = read_pipeline(text)
        options = Options(pipeline.passes, pipeline.disable, settings=pipeline.settings)
    else:
        names = [word.strip().replace("-", "_") for word in text.split(",")]  # flags have "-" for "_"
        options = Options(names)
    report = convert(task.model, Path(task.folder) / Path(task.model).name, options)
    return TaskResult(task.model, before=report.before.op_count, after=report.after.op_count)


def _configuration(task: Task) -> TaskResult:
    # the whole file name: a folder may have net.circle and net.tflite
    path = Path(task.folder) / f"{Path(task.model).name}.cfg"
    write_file(path, [task.filled(task.pipeline).encode()])
    return _called(task, ["-C", str(path)], onecc)


def _command(task: Task) -> TaskResult:
    program, *words = map(task.filled, shlex.split(task.pipeline))  # a space in a path splits no word
    own = _own_command(program)  # a command of circlekit needs no new process
    return _called(task, words, own) if own is not None else _run_program(task, [program, *words])


_RUN = {"passes": _passes, "cfg": _configuration, "command": _command}
"""{``Task.kind``: the function that runs the task}."""


def _called(task: Task, words: Sequence[str], command: OwnCommand) -> TaskResult:
    """Run ``command``, which belongs to circlekit, in this process with the arguments ``words``."""
    content = io.BytesIO()  # bytes: a command may write a model to the standard output
    printed = io.TextIOWrapper(content, "utf-8", "backslashreplace", write_through=True)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = command(words)
    return _concluded(task, code, content.getvalue().decode(errors="replace"))


def _run_program(task: Task, words: Sequence[str]) -> TaskResult:
    """Run the program ``words[0]`` in a process of its own, with the other words as its arguments."""
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, errors="replace"
        )
    except OSError as error:
        raise FileError(f"{words[0]}: {error.strerror}") from None
    return _concluded(task, done.returncode, done.stdout)


def _concluded(task: Task, code: int, printed: str) -> TaskResult:
    """Return the result for a command that ended with exit code ``code`` and printed ``printed``."""
    lines = "\n".join(printed.strip().splitlines()[-MAX_OUTPUT_LINES:])
    if code:
        return TaskResult(task.model, FAILED, message=lines or f"exit code {code}")
    return TaskResult(task.model, message=lines)


def _own_command(name: str) -> OwnCommand | None:
    """Return the function of the command ``name`` of circlekit; None if ``name`` is another program."""
    for script in entry_points(group="console_scripts", name=name):
        if script.value.startswith("circlekit."):
            command: OwnCommand = script.load()
            return command
    return None
