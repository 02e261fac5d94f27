# SPDX-License-Identifier: Apache-2.0
"""Format and parse numbers of bytes, in bytes, KiB, MiB, GiB or TiB."""

from __future__ import annotations

import re

from circlekit.errors import counted

_EXPONENTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
"""The size of each unit as an exponent of 2, by the first letter of the unit."""


def byte_unit(size: float) -> tuple[int, str]:
    """Return the largest unit not above ``size``, as (its bytes, its name), such as (1048576, "MiB").

    The smallest unit is (1, "bytes"), also for a ``size`` below 1.
    """
    letter = next((letter for letter in "TGMK" if size >= 1 << _EXPONENTS[letter]), "")
    return 1 << _EXPONENTS[letter], f"{letter}iB" if letter else "bytes"


def display_unit(size: float) -> tuple[int, str]:
    """Return the unit in which to show ``size`` with one decimal, in the form of ``byte_unit``."""
    return byte_unit(size * 1024 / 1023.95)  # 1023.95 KiB would be rounded to 1024.0 KiB


def format_size(size: float) -> str:
    """Format a number of bytes in its largest unit: ``1000 bytes``, ``1.5 MiB``."""
    unit, name = display_unit(size)
    return f"{size / unit:.1f} {name}" if unit > 1 else counted(round(size), "byte")


def format_exact_size(size: int) -> str:
    """Format a number of bytes exactly: ``1536 bytes``; from 1 MiB on, ``3.0 GiB (3221225472 bytes)``."""
    return counted(size, "byte") if size < 1 << 20 else f"{format_size(size)} ({size} bytes)"


def parse_size(text: str) -> int:
    """Return the number of bytes that a text such as ``8G``, ``512 MiB``, ``1.5g`` or ``4096`` means.

    Units are powers of 1024.  Raise ValueError if the text is not a size or means less than one byte.
    """
    pattern = r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([KMGT]?)(?:i?B)?\s*"
    match = re.fullmatch(pattern, text, re.IGNORECASE | re.ASCII)  # ASCII: the Kelvin sign is no K
    size = 0 if match is None else int(float(match[1]) * (1 << _EXPONENTS[match[2].upper()]))
    if size < 1:
        raise ValueError(f"expected a size such as 512M or 8G, got {text[:40]!r}")
    return size
