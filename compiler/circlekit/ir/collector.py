# SPDX-License-Identifier: Apache-2.0
"""Python's cycle collector, off while models are read, rewritten and written."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No search for cycles meanwhile.

    A large model is hundreds of thousands of objects that refer to each other and next to all of which
    stay; looking through all of them again and again takes a third of the time, and more the more there
    are.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
