# SPDX-License-Identifier: Apache-2.0
"""Python's cycle collector, off while io works."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No search for cycles meanwhile.

    io makes hundreds of thousands of objects that all stay and form no garbage; looking through all of
    them again and again takes a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
