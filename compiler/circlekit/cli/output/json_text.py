# SPDX-License-Identifier: Apache-2.0
"""Write the results of commands as JSON."""

from __future__ import annotations

import json


def json_text(document: object, allow_nan: bool = True) -> str:
    """Return ``document`` as indented JSON; raise ValueError for NaN unless ``allow_nan``."""
    return json.dumps(document, indent=2, allow_nan=allow_nan)
