# SPDX-License-Identifier: Apache-2.0
"""Random edits of random files: saved constants equal those of the model; which module writes files."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.io.read.load import load
from circlekit.io.write import file_writer as output
from circlekit.io.write.save import save, to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from tests.io.oracles import CIRCLE, LITERT, Oracle
from tests.io.write.test_file_layout import constants

PACKAGE = Path(__file__).parents[3] / "compiler" / "circlekit"
SIZES = [1, 15, 16, 17, 99, 1000, 4096, 5000, 9000, 9000, 9000, 20_000]

Edit = Callable[[Array, list[Array]], Array]
EDITS: dict[str, Edit] = {
    "keep": lambda data, others: data,
    "copy": lambda data, others: data.copy(),
    "invert": lambda data, others: ~data,
    "reverse": lambda data, others: data[::-1],
    "first half": lambda data, others: data[: len(data) // 2 + 1],
    "another": lambda data, others: others[-1],
    "repeat": lambda data, others: np.broadcast_to(data[:1], (len(data),)),
    "drop": lambda data, others: data[:0],
}


@given(
    st.lists(st.tuples(st.sampled_from(SIZES), st.sampled_from(sorted(EDITS)), st.booleans()), max_size=9),
    st.sampled_from([CIRCLE, LITERT]),
    st.sampled_from(["circle", "tflite"]),
)
@settings(derandomize=True, max_examples=50, deadline=None)
def test_saved_constants_equal_those_of_the_model(
    plan: list[tuple[int, str, bool]], oracle: Oracle, fmt: str
) -> None:
    """``plan``: for each constant its size in bytes, the edit, and whether it is external data."""
    far = [i for i, (_, _, is_far) in enumerate(plan) if is_far]
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        for module, limit in LIMITS:
            patch.setattr(module, *limit)
        path, out = Path(name, "in"), Path(name, "out")
        path.write_bytes(constants([size for size, _, _ in plan], oracle, far))
        model = load(path)
        expected = edit_constants(model, [edit for _, edit, _ in plan])
        assert save(model, out, fmt) == out.stat().st_size
        content = out.read_bytes()
        assert content == to_bytes(model, fmt)
        assert stored_constants(content, fmt) == expected
        again = load(out)
        assert {v.name: v.array().tobytes() for v in again.main.table if v.name in expected} == expected
        save(again, path, fmt)
        assert path.read_bytes() == content


LIMITS = (
    (output, ("WRITE_STEP_BYTES", 8192)),
    (output, ("BUFFER_BYTES", 5000)),
)
"""Limits of the writer, so small that small files reach them."""


def edit_constants(model: Model, edits: list[str]) -> dict[str, bytes]:
    """Apply an edit to each constant and return the new contents."""
    constants = [v for v in model.main.table if v.name.startswith("c")]
    datas = [v.array() for v in constants]
    for constant, edit in zip(constants, edits, strict=True):
        constant.data = EDITS[edit](constant.array(), datas)
        constant.shape = constant.data.shape
    return {v.name: v.array().tobytes() for v in constants}


def stored_constants(content: bytes, fmt: str) -> dict[str, bytes]:
    """Return the constants as the format's own reader finds them."""
    tree = (CIRCLE if fmt == "circle" else LITERT).read(content)
    found = {}
    for tensor in tree["Subgraphs"][0]["Tensors"]:
        buffer = tree["Buffers"][tensor["Buffer"]]
        data = b"" if buffer["Data"] is None else buffer["Data"].tobytes()
        if buffer["Offset"] > 1:
            assert buffer["Offset"] % 16 == 0
            data = content[buffer["Offset"] :][: buffer["Size"]]
        if tensor["Name"].startswith(b"c"):
            found[tensor["Name"].decode()] = data
    return found


def test_only_the_file_writer_writes_files() -> None:
    """All files but those of ``others`` appear completely or not at all: io.write.file_writer writes them."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent.name != "testing" and MENTION.search(path.read_text())
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _writes(node)
    ]
    others = {
        "toolchain/importers/tensorflow_model.py",  # runs in another Python, which has no circlekit
        "toolchain/session.py",  # the log of a step: it must be readable when the step fails
    }
    assert {place.partition(":")[0] for place in found} - others == {"io/write/file_writer.py"}, found


MENTION = re.compile(r"\b(write_text|write_bytes|tofile|open)\b")
"""The names that ``_writes`` looks for; a file without them is not parsed."""


def _writes(call: ast.Call) -> bool:
    """Return whether the called function has the name, and the arguments, of one that writes a file."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    words = [a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    is_mode = any(set(word) <= set("rwaxbt+") and set(word) & set("wax+") for word in words)
    return name in ("write_text", "write_bytes", "tofile") or (name == "open" and is_mode)
