# SPDX-License-Identifier: Apache-2.0
"""``write_record``: its files hold the inputs and outputs of a comparison."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlekit.equivalence.data_files import hdf5
from circlekit.equivalence.data_files.tensor_files import check_folder, write_record
from circlekit.equivalence.verify import Verifier
from circlekit.errors import FileError
from circlekit.ir.text import parse_model

TEXT = "graph main(%x: f32[64], %k: f32[64]) -> %y { %y = Mul(%x, %k) }"


def test_inputs_and_outputs_before_and_after(tmp_path: Path) -> None:
    model = parse_model(TEXT)
    verifier = Verifier(model)
    # as if the outputs after the passes were larger by 1
    verifier.latest = [[np.asarray(outputs[0] + 1)] for outputs in verifier.latest]
    files = write_record(tmp_path / "rec", model, verifier)
    places = [str(path.relative_to(tmp_path / "rec")) for path in files]
    assert places[:4] == ["input.h5", "expected.h5", "opt.expected.h5", "boundary/input.h5"]
    assert places[-1] == "negative/opt.expected.h5"
    (x_name, x), (k_name, k) = hdf5.read(tmp_path / "rec" / "input.h5")
    (name_before, before), (name_after, after) = (
        hdf5.read(tmp_path / "rec" / name)[0] for name in ("expected.h5", "opt.expected.h5")
    )
    assert (x_name, k_name, name_before, name_after) == ("x", "k", "y", "y")
    np.testing.assert_array_equal(before, x * k)
    np.testing.assert_array_equal(after, before + 1)


def test_check_folder_refuses_a_file_and_a_missing_parent(tmp_path: Path) -> None:
    assert check_folder(tmp_path / "new") == tmp_path / "new"
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match=r"expected a directory to write into, got a file"):
        check_folder(tmp_path / "file")
    with pytest.raises(FileError, match=r"the directory .* does not exist"):
        check_folder(tmp_path / "no" / "new")
