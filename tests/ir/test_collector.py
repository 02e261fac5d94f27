# SPDX-License-Identifier: Apache-2.0
"""The search for unreachable cycles is off within, and afterwards what it was."""

from __future__ import annotations

import gc

import pytest

from circlekit.ir.collector import paused


@pytest.mark.parametrize("was_on", [True, False])
def test_state_is_restored(was_on: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if was_on else gc.disable)()
        with paused():
            assert not gc.isenabled()
            with paused():
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled() is was_on
        with pytest.raises(ZeroDivisionError), paused():
            print(1 // 0)
        assert gc.isenabled() is was_on
    finally:
        (gc.enable if before else gc.disable)()
