# SPDX-License-Identifier: Apache-2.0
"""The commands as processes: how each starts, and how it ends.  Whoever calls a ``main`` gets none of it."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import NoReturn

GARBAGE = 100_000
"""New objects after which Python looks for cycles among them.  At 700 it looks 200 times during imports."""


def _script(module: str, function: str = "main") -> Callable[[], NoReturn]:
    """The process of the command ``circlekit.cli.<module>.<function>``."""

    def run() -> NoReturn:
        gc.set_threshold(GARBAGE)
        # A thread of OpenBLAS that has nothing to do would else wait for work at full speed, 2^26 cycles long
        # from the import of numpy on, on the core where the system copies the file.
        os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
        leave(getattr(import_module(f"circlekit.cli.{module}"), function)())

    return run


def leave(code: int) -> NoReturn:
    """End the process with all that an end has but the taking apart of each object.

    That is the work of 15 ms after the least of commands, and of a second where there is a graph of a
    hundred thousand operators.  The system takes the memory back anyway; files are closed by whoever opened
    them.  (``multiprocessing`` ends its processes like this, too.)
    """
    try:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except Exception:  # Python says it better
        sys.exit(code)
    os._exit(code)


circle2circle = _script("circle2circle")
circle2tflite = _script("circle2tflite")
circle_inspect = _script("circle_inspect")
circle_interpreter = _script("circle_interpreter")
circle_reduce = _script("circle_reduce")
circle_tensordump = _script("circle_tensordump")
circle_verify = _script("circle_verify")
circlechef = _script("circlechef")
circlechef_file = _script("circlechef", "main_file")
circlechef_reverse = _script("circlechef", "main_reverse")
circledump = _script("circledump")
dredd = _script("dredd")
i5diff = _script("i5diff")
tfl_inspect = _script("tfl_inspect")
tfl_verify = _script("tfl_verify")
tflchef = _script("tflchef")
tflchef_file = _script("tflchef", "main_file")
tflchef_reverse = _script("tflchef", "main_reverse")
tfldump = _script("tfldump")
tflite2circle = _script("tflite2circle")
