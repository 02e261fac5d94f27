# SPDX-License-Identifier: Apache-2.0
"""Parse JSON from untrusted sources."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Return the content of ``text``; raise ValueError if it is not JSON, or is nested too deeply.

    As in Python's ``json``, NaN and Infinity are accepted, too.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists or objects are nested too deeply") from None
