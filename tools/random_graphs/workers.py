# SPDX-License-Identifier: Apache-2.0
"""Seeds on several processes."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.random_graphs.battery import Finding, Result, examine
from tools.workers import Loss, Tell, Workers, quiet

TIME_LIMIT = 600.0
"""Seconds after which a seed counts as one that hangs, on a machine that does much else."""


def examine_all(seeds: Sequence[int], passes: Sequence[str], jobs: int) -> Iterator[Result]:
    """The result of every seed, in the order in which they come."""
    with tempfile.TemporaryDirectory(prefix="random_graphs") as shared:

        def work(seed: int, tell: Tell) -> Result:
            folder = Path(shared, str(os.getpid()))
            folder.mkdir(exist_ok=True)
            try:
                return examine(seed, folder, tell, passes)
            except Exception as error:  # a mistake of the tool, or a model that cannot even be printed
                what = f"{type(error).__name__}: {error}{traceback.format_exc(limit=-3)[-400:]}"
                return Result(seed, findings=[Finding(seed, f"tool {type(error).__name__}", (), "", what)])

        yield from Workers(work, _lost, quiet, TIME_LIMIT).results(seeds, jobs)


def _lost(loss: Loss[int]) -> Result:
    phase = loss.news[-1] if loss.news else "making"
    result = Result(loss.job)
    if phase != "LiteRT":  # which may abort on what it does not like
        result.findings.append(Finding(loss.job, "lost", (phase,), "", f"{phase} {loss}"))
    return result
