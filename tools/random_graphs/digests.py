# SPDX-License-Identifier: Apache-2.0
"""The same files in a process whose strings hash otherwise.

python -m tools.random_graphs.digests SEED...      (a line for each: the seed, and the digest of its files)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

from tools.random_graphs.battery import Finding, examine

HASH_SEED = "12345"


def other_hash_seed(digests: Mapping[int, int]) -> list[Finding]:
    """Findings for the seeds whose files are others under another hash seed."""
    if not digests:
        return []
    command = [sys.executable, "-m", "tools.random_graphs.digests", *map(str, digests)]
    environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    found = {int(seed): int(digest) for seed, digest in lines}
    return [
        Finding(seed, "hash", ("O1",), "", f"other bytes with PYTHONHASHSEED={HASH_SEED}")
        for seed, digest in digests.items()
        if found.get(seed) != digest
    ]


def main() -> None:
    warnings.simplefilter("ignore")
    for seed in map(int, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as folder:
            print(seed, examine(seed, Path(folder), passes=()).digest)


if __name__ == "__main__":
    main()
