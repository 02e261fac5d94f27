# SPDX-License-Identifier: Apache-2.0
"""The measured tables and the runtimes agree on a small sample of models; ``tools.probe_targets`` on more."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tools.probe_targets.check import check

SEED = 5

MODELS = 12


@pytest.mark.parametrize(
    ("name", "package"),
    [("litert", "ai_edge_litert"), ("litert-xnnpack", "ai_edge_litert"), ("onert", "onert")],
)
def test_table_and_runtime_agree(name: str, package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    found = check(name, MODELS, SEED)
    assert not found.differences, found.differences
    assert found.counts[True, True] > MODELS / 4
