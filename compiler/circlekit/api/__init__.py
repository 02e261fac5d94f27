# SPDX-License-Identifier: Apache-2.0
"""The public functions, and the way of a file through them."""

from __future__ import annotations

from circlekit.api.models import FilePath, compare, load, run, save
from circlekit.api.options import Options, read_pipeline
from circlekit.api.rewriting import convert, optimize

__all__ = ["FilePath", "Options", "compare", "convert", "load", "optimize", "read_pipeline", "run", "save"]
