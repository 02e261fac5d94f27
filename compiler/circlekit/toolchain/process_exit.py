# SPDX-License-Identifier: Apache-2.0
"""How a process ends: exit codes, and what happens if the standard output cannot be written.

The drivers of this package and the commands of ``cli`` share these.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Any

USAGE_ERROR, INTERRUPTED, BROKEN_PIPE = 2, 130, 141
"""Exit codes: 2 for wrong usage, as in argparse; as in shells, 130 after Ctrl-C, 141 after a broken pipe."""

WRITE_ERRORS = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EINVAL}
"""Error numbers of failed writes.

An OSError with one of them and no file name is taken to be about the standard output.
"""


class HelpParser(argparse.ArgumentParser):
    """A parser that raises the error if its help page cannot be printed; argparse ignores this error."""

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print ``message`` to ``file``."""
        if file is not None and file is sys.stdout:
            file.write(message)
            file.flush()
        else:
            super()._print_message(message, file)


def flush_stdout() -> None:
    """Write buffered output; without this call, Python writes it at exit, when no error can be handled."""
    if sys.stdout is not None:
        sys.stdout.flush()


def is_about_stdout(error: Exception) -> bool:
    """Return whether ``error`` is taken to say that the standard output cannot be written (WRITE_ERRORS)."""
    return isinstance(error, OSError) and error.filename is None and error.errno in WRITE_ERRORS


def checking_stdout(work: Callable[[], int], heading: str, failed: int) -> int:
    """Call ``work``; return the exit code that it returns.

    Characters that the encoding of the standard output lacks are escaped, as in the standard error.  If the
    standard output cannot be written, all later output to it is discarded.  If its reader has ended,
    return BROKEN_PIPE; otherwise print the error after ``heading``, and return ``failed``.
    ``work`` must call ``flush_stdout`` and not catch errors of the standard output.  Any other error that
    ``work`` raises is raised here, too.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return work()
    except OSError as error:
        if not is_about_stdout(error):
            raise
        # Python flushes the standard output at exit; without this line, that would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        reason = error.strerror or error
        print(f"{heading}: cannot write to the standard output: {reason}", file=sys.stderr, flush=True)
        return failed
