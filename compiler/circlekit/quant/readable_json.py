# SPDX-License-Identifier: Apache-2.0
"""Format JSON so that it is easy to read: a line for each field, and a list of numbers on one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def readable_json(document: Mapping[str, Any]) -> str:
    """Return ``document`` as JSON with one line for each field of an object.

    In a list of objects, each object begins on a new line.  Any other list stays on one line.
    Raise ValueError for NaN and infinity, TypeError for objects that JSON cannot express.
    """
    return "".join(_pieces(document, 0)) + "\n"


def _pieces(content: Any, depth: int) -> Iterator[str]:
    """Yield the text of ``content`` in pieces; ``depth``: the indentation of its first line, in spaces.

    A list is written as a list of objects if its first item is an object.
    """
    is_object = isinstance(content, Mapping)
    has_objects = isinstance(content, list) and bool(content) and isinstance(content[0], Mapping)
    if not content or not (is_object or has_objects):
        yield json.dumps(content, allow_nan=False)
        return
    begin, end = "{}" if is_object else "[]"
    items: Iterable[Any] = content.items() if isinstance(content, Mapping) else content
    separator = begin  # what stands before the next item: first the bracket, then commas
    for item in items:
        yield f"{separator}\n{' ' * (depth + 1)}"
        if is_object:
            yield f"{json.dumps(item[0])}: "
        yield from _pieces(item[1] if is_object else item, depth + 1)
        separator = ","
    yield f"\n{' ' * depth}{end}"
