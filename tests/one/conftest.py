# SPDX-License-Identifier: Apache-2.0
"""One test for each recipe, and for each line of each list, of the peer's material."""

from __future__ import annotations

import pytest

from circlekit.recipes.dredd_cases import Case, cases_of
from tests.conftest import SHARED

PEER = SHARED / "peer" / "one"
SOURCES = {"peer_recipe": "", "peer_dredd": "circle2circle.tsv", "peer_value": "pass-value.tsv"}
"""What a fixture's tests come from, below the peer's folder."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Skips that can be seen where the folder is absent."""
    for fixture, source in SOURCES.items():
        if fixture not in metafunc.fixturenames:
            continue
        if not PEER.is_dir():
            skip = pytest.mark.skip(
                reason=f"no peer's recipes at {PEER}, CIRCLEKIT_SHARED can name the folder"
            )
            metafunc.parametrize(fixture, [pytest.param(None, marks=skip)], ids=["absent"])
            continue
        cases = cases_of(PEER / source, with_rules=fixture != "peer_value")
        metafunc.parametrize(fixture, cases, ids=list(map(_name, cases)))


def _name(case: Case) -> str:
    return f"{case.name}-{','.join(case.passes)}" if case.passes else case.name
