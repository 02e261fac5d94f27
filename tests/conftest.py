# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all tests: the folder of shared real models."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("CIRCLEKIT_SHARED", Path(__file__).parents[2] / "shared"))
MODELS = sorted(path for suffix in ("circle", "tflite") for path in SHARED.glob(f"models/*/*.{suffix}"))


def without(data: str) -> str:
    """Return the reason why a test that needs ``data``, a part of the shared data, is skipped."""
    return f"no {data} in {SHARED}; CIRCLEKIT_SHARED can name another folder"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of shared data; tests that need it are skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(without("files"))
    return SHARED


def pytest_collection_finish() -> None:
    """Exempt the collected tests, which live until the end, from garbage collections during the run."""
    gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the argument ``model_path`` on every shared model; skip it where there are none."""
    if "model_path" not in metafunc.fixturenames:
        return
    if MODELS:
        names = [str(path.relative_to(SHARED / "models")) for path in MODELS]
        metafunc.parametrize("model_path", MODELS, ids=names)
    else:
        skip = pytest.mark.skip(reason=without("models"))
        metafunc.parametrize("model_path", [pytest.param(SHARED, marks=skip)], ids=["absent"])
