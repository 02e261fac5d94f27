# SPDX-License-Identifier: Apache-2.0
"""Check the types of the fields of JSON documents.

Each function returns ``content``, or raises ValueError.  ``name``: what ``content`` is, for the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def object_field(content: Any, name: str) -> Mapping[str, Any]:
    """Return ``content``, which must be an object."""
    if not isinstance(content, dict):
        raise ValueError(f"expected an object as {name}, got {content!r:.40}")
    return content


def list_field(content: Any, name: str) -> list[Any]:
    """Return ``content``, which must be a list."""
    if not isinstance(content, list):
        raise ValueError(f"expected a list as {name}, got {content!r:.40}")
    return content


def text_field(content: Any, name: str) -> str:
    """Return ``content``, which must be a text."""
    if not isinstance(content, str):
        raise ValueError(f"expected a text as {name}, got {content!r:.40}")
    return content


def flag_field(content: Any, name: str) -> bool:
    """Return ``content``, which must be true or false."""
    if not isinstance(content, bool):
        raise ValueError(f"expected true or false as {name}, got {content!r:.40}")
    return content


def integer_field(content: Any, name: str, lowest: int = -(2**63)) -> int:
    """Return ``content``, which must be an integer from ``lowest`` to 2**63 - 1."""
    if type(content) is not int or not lowest <= content < 2**63:
        limits = "of 64 bits" if lowest == -(2**63) else f"from {lowest} to 2**63 - 1"
        raise ValueError(f"expected an integer {limits} as {name}, got {content!r:.40}")
    return content
