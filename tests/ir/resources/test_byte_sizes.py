# SPDX-License-Identifier: Apache-2.0
"""Numbers of bytes as text."""

from __future__ import annotations

import pytest

from circlekit.ir.resources.byte_sizes import format_exact_size, format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("512M", 1 << 29),
        ("8G", 8 << 30),
        ("1.5 GiB", 3 << 29),
        ("2kb", 2048),
        ("1T", 1 << 40),
    ],
)
def test_sizes_are_parsed_in_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "M", "1X", "1e9", "9" * 5000, "inf", "0.1", "1\N{KELVIN SIGN}"]
)
def test_texts_that_are_not_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a size such as 512M"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (1000, "1000 bytes"), (1536, "1.5 KiB"), (3 << 39, "1.5 TiB")],
)
def test_formatted_sizes(size: int, text: str) -> None:
    assert format_size(size) == text


def test_exact_sizes() -> None:
    assert format_exact_size(1) == "1 byte"
    assert format_exact_size(1536) == "1536 bytes"
    assert format_exact_size(3 << 30) == "3.0 GiB (3221225472 bytes)"
    assert format_exact_size(1 << 20) == "1.0 MiB (1048576 bytes)"


def test_sizes_at_the_limits_of_units() -> None:
    assert parse_size("1") == parse_size("0.001K") == 1  # 1.024 bytes
    assert format_size(1023) == "1023 bytes"
    assert format_size(1024) == "1.0 KiB"
    assert format_size((1 << 20) - 60) == "1023.9 KiB"
    assert format_size((1 << 20) - 1) == "1.0 MiB"
    assert format_exact_size((1 << 20) - 1) == "1048575 bytes"
