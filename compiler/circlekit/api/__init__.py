# SPDX-License-Identifier: Apache-2.0
"""The public functions of circlekit, and types of their arguments."""

from __future__ import annotations

from circlekit.api.checking import check
from circlekit.api.explaining import explain, explain_op
from circlekit.api.fake_quantizing import fake_quantize
from circlekit.api.models import FilePath, ModelFile, compare, load, parse, run, save
from circlekit.api.options import Options, read_pipeline
from circlekit.api.quantizing import calibrate, quantize
from circlekit.api.rewriting import convert, optimize
from circlekit.api.structure import extract, merge, partition, resize, select

__all__ = [
    "FilePath",
    "ModelFile",
    "Options",
    "calibrate",
    "check",
    "compare",
    "convert",
    "explain",
    "explain_op",
    "extract",
    "fake_quantize",
    "load",
    "merge",
    "optimize",
    "parse",
    "partition",
    "quantize",
    "read_pipeline",
    "resize",
    "run",
    "save",
    "select",
]
