# SPDX-License-Identifier: Apache-2.0
"""Write the results of commands as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence


def json_text(document: object, allow_nan: bool = True) -> str:
    """Return ``document`` as indented JSON; unless ``allow_nan``, raise ValueError for NaN and infinities."""
    return json.dumps(document, indent=2, allow_nan=allow_nan)


def json_of_each(documents: Sequence[object]) -> str:
    """Return the documents of one or more files: as a JSON array if there are several, else the document."""
    return json_text(documents if len(documents) > 1 else documents[0])
