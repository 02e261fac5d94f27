# SPDX-License-Identifier: Apache-2.0
"""Paths that a user gives, in which ``~`` stands for a home directory."""

from __future__ import annotations

import os


def expanded(path: object) -> str:
    """Return ``path`` with a home directory in place of ``~``; an unknown ``~NAME`` stays as it is."""
    return os.path.expanduser(str(path))  # noqa: PTH111  # ``Path.expanduser`` raises for an unknown name


def real_path(path: object) -> str:
    """Return the absolute path of ``path``, without symbolic links and ``~``."""
    return os.path.realpath(expanded(path))
