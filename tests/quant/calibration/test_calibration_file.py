# SPDX-License-Identifier: Apache-2.0
"""Calibration files that a person has written: defaults, limits of fields, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import circlekit as ck
from circlekit.errors import FileError, FormatError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "expected an object"),
        ("{", "not a calibration"),
        ('{"calibration": 9}', "expected version 1"),
        ('{"calibration": 1}', "no field 'graphs'"),
        ('{"calibration": 1, "samples": -1, "graphs": []}', r"an integer from 0 to 2\*\*63 - 1 as samples"),
        ('{"calibration": 1, "setup_checksum": 9223372036854775808, "graphs": []}', "as setup_checksum, got"),
        ('{"calibration": 1, "graphs": [{"a": {"min": 1, "max": 0}}]}', "tensor a: expected finite numbers"),
        ('{"calibration": 1, "graphs": [{"a": {"min": 1}}]}', "tensor a has no field 'max'"),
        (
            '{"calibration": 1, "graphs": [{"a": {"min": null, "max": 1}}]}',
            "expected both min and max",
        ),
        ('{"calibration": 1, "graphs": [{"a": {"min": 0, "max": NaN}}]}', "expected finite numbers"),
        (
            '{"calibration": 1, "graphs": [{"a": {"min": 0, "max": 1, "minima": [0], "maxima": [1e99]}}]}',
            "tensor a: expected a list of finite numbers",
        ),
        ('{"calibration": 1, "graphs": [{"a": 5}]}', "tensor a: expected an object as statistics, got 5"),
        ('{"calibration": 1, "graphs": 5}', "expected a list as graphs"),
        ('{"calibration": 1, "graphs": [5]}', "expected an object as a graph, got 5"),
        (
            '{"calibration": 1, "samples": "2", "graphs": []}',
            "expected an integer from 0 .* as samples, got '2'",
        ),
        ('{"calibration": 1, "engine": null, "graphs": []}', "expected a text as engine, got None"),
        ('{"calibration": 1, "is_complete": "no", "graphs": []}', "expected true or false as is_complete"),
        ('{"calibration": 1, "graphs": [{"a": {"min": 0, "max": 1, "minima": [1]}}]}', "as many minima"),
    ],
)
def test_a_wrong_file_ends_in_a_sentence(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(content)
    with pytest.raises(FormatError, match=message):
        ck.Calibration.load(path)


def test_fields_that_a_file_lacks_are_as_in_a_new_calibration(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"calibration": 1, "graphs": [{"a": {"min": 0, "max": 1}}]}')
    loaded, fresh = ck.Calibration.load(path), ck.Calibration()
    for calibration in (loaded, fresh):
        assert calibration.samples == calibration.setup_checksum == calibration.samples_checksum == 0
        assert calibration.source == calibration.engine == ""
        assert calibration.is_complete
    assert (loaded["a"].count, loaded["a"].ignored, loaded["a"].minima) == (0, 0, [])
    assert loaded.of(ck.parse("graph main(%a: f32[1]) -> %a { }").main.inputs[0]) is loaded["a"]


def test_an_extension_other_than_json_or_npz_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"expected the extension \.json or \.npz"):
        ck.Calibration().save(tmp_path / "c.txt")


HISTOGRAM = {"bin_width": "2**-5", "first_bin": -3, "counts": [1, 0, 2]}
CHANNELS: dict[str, Any] = {
    "axis": 1,
    "count": 2,
    "minima": [0],
    "maxima": [1],
    "sums": [1],
    "square_sums": [1],
}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"histogram": HISTOGRAM}, None),
        ({"histogram": {**HISTOGRAM, "bin_width": "2**999"}}, None),
        ({"histogram": {**HISTOGRAM, "bin_width": "2**1000"}}, "expected a bin_width such as"),
        ({"histogram": {**HISTOGRAM, "bin_width": "2**-1000"}}, "expected a bin_width such as"),
        ({"histogram": {**HISTOGRAM, "bin_width": "3**5"}}, "expected a bin_width such as"),
        ({"histogram": {**HISTOGRAM, "first_bin": 1 - 2**32}}, None),
        ({"histogram": {**HISTOGRAM, "first_bin": 2**32}}, "a first_bin of magnitude below 4294967296"),
        ({"histogram": {**HISTOGRAM, "counts": [1, -1]}}, "expected counts of at least 0, some above 0"),
        ({"histogram": {**HISTOGRAM, "counts": []}}, "expected counts of at least 0, some above 0"),
        ({"histogram": {**HISTOGRAM, "counts": [0, 0]}}, "expected counts of at least 0, some above 0"),
        ({"histogram": {**HISTOGRAM, "counts": [[1]]}}, "expected a list of numbers, got 2 dimensions"),
        ({"channels": CHANNELS}, None),
        ({"channels": {**CHANNELS, "sums": [1, 2]}}, "expected lists of the same length for the channels"),
        ({"min": 1, "max": 1}, None),
        ({"min": 1.5, "max": 1}, "expected finite numbers with min <= max, got 1.5 and 1.0"),
        ({"min": None, "max": None}, None),
        ({"min": 0, "max": None}, "expected both min and max, or neither, got 0 and None"),
        ({"min": -1e39, "max": 0}, "expected finite numbers"),
        ({"minima": [0, 1], "maxima": [1]}, "expected as many minima as maxima, got 2 and 1"),
        ({"count": -1}, "expected an integer from 0 .* as count, got -1"),
        ({"count": 2.5}, "expected an integer from 0 .* as count, got 2.5"),
        ({"histogram": {**HISTOGRAM, "bin_width": "2"}}, "expected a bin_width such as"),
        (
            {"histogram": {**HISTOGRAM, "first_bin": "3"}},
            "expected an integer of 64 bits as first_bin, got '3'",
        ),
        ({"histogram": [1]}, "expected an object as histogram"),
        ({"minima": "numbers_7"}, "expected a list of numbers or .* an array in the file, got 'numbers_7'"),
    ],
    ids=str,
)
def test_fields_of_a_file_outside_their_limits_are_errors(
    fields: dict[str, Any], message: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "c.json"
    tensor = {"min": -1, "max": 1, "count": 3, **fields}
    path.write_text(json.dumps({"calibration": 1, "samples": 2, "graphs": [{"a": tensor}]}))
    if message is None:
        loaded = ck.Calibration.load(path)
        assert (loaded.samples, loaded["a"].count, loaded["a"].max) == (2, 3, tensor["max"])
        return
    with pytest.raises(FormatError, match=f"tensor a: .*{message}"):
        ck.Calibration.load(path)
