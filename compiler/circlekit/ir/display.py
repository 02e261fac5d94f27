# SPDX-License-Identifier: Apache-2.0
"""How ``str`` shows models, graphs and operators.

The printer (``ir.text``) needs the classes of the IR, so it cannot be imported by them; it registers its
functions here instead.
"""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def to_text(thing: object) -> str:
    """Return the text form of a model, graph or operator; its ``repr`` if ``ir.text`` is not imported."""
    return repr(thing)
