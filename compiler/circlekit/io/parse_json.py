# SPDX-License-Identifier: Apache-2.0
"""Parse JSON from untrusted sources."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Return the content of ``text``.

    Raise ValueError if it is not JSON, is nested too deeply, or has an integer with too many digits for
    Python (``sys.set_int_max_str_digits``).
    As in Python's ``json``, NaN and Infinity are accepted, too.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists or objects are nested too deeply") from None
