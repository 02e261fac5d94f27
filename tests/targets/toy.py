# SPDX-License-Identifier: Apache-2.0
"""Small targets of the tests' own, so that a test does not depend on what a runtime has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from circlekit.targets.target import Target

ANY = {"version": 99, "forms": "any"}


def toy(*codes: str, **entries: Mapping[str, Any]) -> Target:
    """Return a target that runs ``codes`` in every form, and each operator of ``entries`` in its forms."""
    forms = {code: {"version": 99, "forms": dict(found)} for code, found in entries.items()}
    formats = frozenset({"circle", "tflite"})
    return Target("toy", "Toy", "1", "this test", formats, {**dict.fromkeys(codes, ANY), **forms})
