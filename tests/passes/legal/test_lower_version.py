# SPDX-License-Identifier: Apache-2.0
"""Operator versions that are higher than needed."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from circlekit.targets.target import Target


def old_runtime(version: int) -> Target:
    """A runtime that has ADD up to ``version`` and nothing else."""
    adds = {"ADD": {"version": version, "forms": {"f32,f32:f32": {}}}}
    return Target("old", "old", "1", "made up", frozenset({"circle"}), adds)


@pytest.mark.parametrize(("stated", "written"), [(3, None), (1, 1), (2, 2)])
def test_a_version_that_the_runtime_refuses_is_lowered(stated: int, written: int | None) -> None:
    """ADD of two f32 needs version 1.  ``written``: None stands for the needed version.

    If the runtime refuses the needed version, too, the stated version stays.
    """
    model = parse_model("graph main(%x: f32[2]) -> %y { %y = Add(%x, %x) }")
    model.main.ops[0].version = stated
    assert legalize(model, "circle", targets=[old_runtime(2)]).main.ops[0].version == written
    assert model.main.ops[0].version == stated
    assert legalize(model, "circle", targets=[old_runtime(0)]).main.ops[0].version == stated
