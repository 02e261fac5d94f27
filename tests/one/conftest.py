# SPDX-License-Identifier: Apache-2.0
"""One test per recipe of ONE, and per line of its test lists."""

from __future__ import annotations

import pytest

from circlekit.recipes.dredd_cases import Case, cases_of
from tests.conftest import SHARED, without

ONE_FILES = SHARED / "peer" / "one"
SOURCES = {"one_recipe": "", "one_dredd": "circle2circle.tsv", "one_value": "pass-value.tsv"}
"""{fixture: the file below ONE_FILES that lists its cases}; "": the folder itself, each recipe is a case."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests with ONE's recipes; without the folder they are reported as skipped."""
    for fixture, source in SOURCES.items():
        if fixture not in metafunc.fixturenames:
            continue
        if not ONE_FILES.is_dir():
            skip = pytest.mark.skip(reason=without("peer/one"))
            metafunc.parametrize(fixture, [pytest.param(None, marks=skip)], ids=["absent"])
            continue
        cases = cases_of(ONE_FILES / source, with_rules=fixture != "one_value")
        metafunc.parametrize(fixture, cases, ids=list(map(_name, cases)))


def _name(case: Case) -> str:
    return f"{case.name}-{','.join(case.passes)}" if case.passes else case.name
