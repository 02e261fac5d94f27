# SPDX-License-Identifier: Apache-2.0
"""Give a damaged HDF5 file to what reads such files.

Hostile structures (links, huge shapes, odd dtypes) are in tests/equivalence/test_hdf5_hostile.py.
"""

from __future__ import annotations

import tempfile
import zlib
from pathlib import Path

import numpy as np

from circlekit.equivalence.data_files import hdf5, tensor_files
from circlekit.equivalence.data_files.array_files import compare_files
from circlekit.errors import CirclekitError
from circlekit.interp.interpreter import run
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.text import parse_model

MEMORY = "256M"
MODEL = "graph main(%x: f32[2,3], %y: i32[2]) -> %a, %y { %m = Mean(%x, [0])\n%a = Sub(%x, %m) }"
SAMPLE = hdf5.encode([("x", np.ones((2, 3), "<f4")), ("y", np.ones(2, "<i4"))])
"""A valid file with the inputs of MODEL."""


def read_hdf5(data: bytes) -> None:
    """Read a file in one of three ways, each of which starts a process.

    AssertionError if the error that refuses it has several lines, or hides a failed allocation.
    """
    with tempfile.TemporaryDirectory() as name, limited(MEMORY):
        path, other = Path(name, "test.h5"), Path(name, "other.h5")
        path.write_bytes(data)
        try:
            way = zlib.crc32(data) % 3
            if way == 0:
                list(hdf5.read_records(path))
            elif way == 1:
                other.write_bytes(SAMPLE)
                list(map(str, compare_files(path, other, 0.001)))
            else:
                model = parse_model(MODEL)
                outputs = run(model, tensor_files.read_h5(path, model.main.inputs))
                tensor_files.write_h5(f"{name}/out.", model.main.outputs, outputs)
        except CirclekitError as error:
            if "\n" in error.message:
                raise AssertionError(f"more than one line: {error.message[:200]!r}") from error
            cause: BaseException | None = error
            while cause is not None:
                if isinstance(cause, MemoryError):
                    raise cause from None
                cause = cause.__cause__ or cause.__context__
            raise
