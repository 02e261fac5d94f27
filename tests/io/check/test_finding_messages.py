# SPDX-License-Identifier: Apache-2.0
"""What a finding says about a file: where the fault is, and what stands there."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.errors import CirclekitError, FormatWarning
from circlekit.io.check.check_file import check_bytes
from circlekit.io.findings import REFUSED, RULES, InvalidFile
from circlekit.io.read.flatbuffer_decoder import Decoder, identify
from circlekit.io.read.load import load_bytes
from tests.io.check.check_cases import CASES, sound
from tests.io.models import LIBRARY, file_bytes
from tests.io.mutate import damaged

WHOLE = "the file"
STEP = re.compile(r"(?:^|\.)([a-z_0-9]+)|\[(\d+)\]")
ABSENT = object()


def broken() -> Iterator[bytes]:
    """Yield files that break one rule each, and damaged files."""
    for _, _, breaks, _ in CASES:
        f = sound()
        breaks(f)
        yield f.pack()
    for seed in range(60):
        yield from (damaged(file_bytes(name), seed) for name in sorted(LIBRARY))


def tree_of(data: bytes) -> Any:
    view = memoryview(data)
    return Decoder(view, identify(view) or "", "net", lambda path, what: None).root()


def found_at(tree: Any, path: str) -> Any:
    """Return what the file has at ``path``; ABSENT if its last field, or the element of it, is absent.

    Raise KeyError or IndexError if an earlier step of ``path`` is absent.
    """
    steps = [int(index) if index else name for name, index in STEP.findall(path)]
    assert "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps) == f".{path}"
    last = max(number for number, step in enumerate(steps) if isinstance(step, str))
    for step in steps[:last]:
        tree = tree[step]
    try:
        for step in steps[last:]:
            tree = tree[step]
    except (KeyError, IndexError):
        return ABSENT
    return tree


def test_a_finding_names_a_place_of_the_file_and_what_stands_there() -> None:
    numbers = 0
    for data in broken():
        for finding in check_bytes(memoryview(data)):
            assert finding.message
            if finding.path == WHOLE or finding.rule in ("flatbuffer", "lost"):  # no tree, or not in the tree
                continue
            tree = tree_of(data)
            there = found_at(tree, finding.path)
            if isinstance(there, np.generic):
                there = there.item()
            if there is ABSENT or (finding.rule == "operands" and isinstance(there, int)):  # -1: no operand
                assert re.search(r"got none|missing|absent|\b0\b", finding.message), finding
            elif isinstance(there, int | float | str):
                numbers += 1
                said = {str(there), ascii(there)}
                if finding.rule == "one-producer":  # the tensor is named, not numbered
                    said = {"%" + tree["subgraphs"][0]["tensors"][there]["name"]}
                words = "|".join(map(re.escape, said))
                assert re.search(rf"(?<![\w-])({words})(?!\w)", finding.message), finding
    assert numbers > len(CASES) / 2


def test_a_file_that_cannot_be_loaded_is_named_with_its_finding() -> None:
    refused = 0
    for data in broken():
        findings = check_bytes(memoryview(data))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            if any(RULES[finding.rule][0] == REFUSED for finding in findings):
                refused += 1
                with pytest.raises(CirclekitError) as caught:
                    load_bytes(data, "net.tflite")
                assert caught.value.message.startswith("net.tflite: ")
                if isinstance(caught.value, InvalidFile):
                    assert caught.value.message == f"net.tflite: {caught.value.finding}"
                    assert caught.value.finding in findings
    assert refused > len(CASES) / 4


@pytest.mark.parametrize(
    "path", ["subgraphs[0].operators[1]", "subgraphs[0].operators[1].inputs[2]", "version"]
)
def test_places_of_a_valid_file(path: str) -> None:
    data = sound().pack()
    assert found_at(tree_of(data), path) is not ABSENT
