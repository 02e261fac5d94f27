# SPDX-License-Identifier: Apache-2.0
"""The rules of the checker.  Each of CASES has a file that breaks one rule alone, and a near miss."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.errors import CirclekitError, FormatWarning
from circlekit.io.check import check_file as check
from circlekit.io.check.check_file import check_bytes
from circlekit.io.findings import REFUSED, RULES, Finding
from circlekit.io.read.flatbuffer_decoder import decode
from circlekit.io.read.load import load_bytes
from circlekit.io.write.flatbuffer_encoder import encode
from circlekit.ir.verifier import verify
from tests.io.check.check_cases import CASES, OP, Change, both, put, sound
from tests.io.models import LIBRARY, File, file_bytes
from tests.io.mutate import damaged
from tests.io.oracles import CIRCLE, LITERT


def findings(*changes: Change, oracle: Any = LITERT) -> list[Finding]:
    f = sound(oracle)
    both(*changes)(f)
    return check_bytes(memoryview(f.pack()))


@pytest.mark.parametrize(("rule", "path", "breaks", "keeps"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_file_that_breaks_a_rule_and_near_miss(rule: str, path: str, breaks: Change, keeps: Change) -> None:
    found = findings(breaks)
    assert [(f.rule, f.path) for f in found] == [(rule, path)]
    assert found[0].message
    assert findings(keeps) == []


@pytest.mark.parametrize(
    ("change", "role"),
    [(put("O3.outputs", [0]), "an input of the graph"), (put("O1.outputs", [9, 7]), "a constant")],
)
def test_what_an_operator_overwrites_is_named(change: Change, role: str) -> None:
    (found,) = findings(change)
    assert found.message.endswith(f" is {role}")


APART = {"flatbuffer", "format", "load", "tables", "lost"}
"""Rules without a case in CASES; they are tested below."""


def test_every_rule_has_a_test() -> None:
    assert {case[0] for case in CASES} | APART == set(RULES)


def test_a_tensor_without_a_name_is_called_by_its_number() -> None:
    assert [f.message for f in findings(put("T0.name", None))] == ["tensor 0 has no name"]


def test_without_scales_there_are_as_many_maxima_as_minima() -> None:
    ends = (put("T2.quantization.min", [0.0] * 3), put("T2.quantization.max", [1.0] * 2))
    scales = (put("T2.quantization.scale", []), put("T2.quantization.zeroPoint", []))
    assert [f.message for f in findings(*ends, *scales)] == ["expected as many maxima as minima, got 3 and 2"]


def test_all_findings_are_listed() -> None:
    changes = [case[2] for case in CASES if case[0] in ("order", "text", "variable", "version", "min-max")]
    assert {f.rule for f in findings(*changes)} == {"order", "text", "variable", "version", "min-max"}


def test_structural_damage_ends_the_check() -> None:
    data = sound().pack()
    found = check_bytes(memoryview(data[: len(data) // 2]))
    assert [f.rule for f in found] == ["flatbuffer"]
    assert [f.rule for f in check_bytes(memoryview(b"graph main() {}"))] == ["format"]


def test_an_error_without_a_rule_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(data: object, name: str) -> None:
        raise CirclekitError("odd")

    monkeypatch.setattr(check, "load_bytes", fail)
    assert [(f.rule, f.message) for f in findings()] == [("load", "odd")]


def test_number_of_tables_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "RUNTIME_TABLES", 10)
    (finding,) = findings()
    assert finding.rule == "tables"
    count = int(finding.message.rpartition(" ")[2])
    monkeypatch.setattr(check, "RUNTIME_TABLES", count - 1)
    assert [f.rule for f in findings()] == ["tables"]
    monkeypatch.setattr(check, "RUNTIME_TABLES", count)
    assert findings() == []


def test_unknown_union_member_is_a_warning() -> None:
    def newer(f: File) -> None:
        f.main.operators[2].builtinOptionsType = 240

    found = findings(newer)
    assert [(f.rule, f.path, f.severity) for f in found] == [("lost", f"{OP}[2].builtin_options", "warning")]


def test_what_loading_loses_is_a_warning() -> None:
    """The code that is generated from the schema cannot write a deprecated field."""
    tree = decode(memoryview(sound().pack()), "tflite")
    tree["signature_defs"][0]["deprecated_tag"] = "serving"
    data = b"".join(encode(tree, "tflite").pieces())
    with pytest.warns(FormatWarning) as warned:
        load_bytes(data, "net")
    (finding,) = check_bytes(memoryview(data))
    assert (finding.rule, finding.severity) == ("lost", "warning")
    assert str(warned[0].message) == f"net: {finding}"
    assert finding.path == "signature_defs[0].deprecated_tag"


def test_rules_hold_for_circle() -> None:
    """The same rules for circle, where every schema version is valid."""
    assert findings(put("version", 0), oracle=CIRCLE) == []
    assert [f.rule for f in findings(put("O0.inputs[0]", 11), oracle=CIRCLE)] == ["tensor-index"]


def test_real_models_break_no_rule(model_path: Path) -> None:
    assert check_bytes(memoryview(model_path.read_bytes())) == []


# -- the loader and the checker agree ------------------------------------------------------------


def agree(data: bytes) -> None:
    """Assert that the checker's findings agree with the loader and with ``verify``."""
    found = check_bytes(memoryview(data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        try:
            model = load_bytes(data)
            is_sound = not verify(model)
        except CirclekitError:
            assert [f for f in found if RULES[f.rule][0] == REFUSED]
            return
    assert not [f for f in found if RULES[f.rule][0] == REFUSED]
    assert found or is_sound


@pytest.mark.parametrize("number", range(len(CASES)))
def test_loader_and_checker_agree_on_each_rule(number: int) -> None:
    f = sound()
    CASES[number][2](f)
    agree(f.pack())


@settings(max_examples=200, derandomize=True, deadline=None, database=None)
@given(name=st.sampled_from(["", *sorted(LIBRARY)]), seed=st.integers(0, 1 << 20))
def test_loader_and_checker_agree_on_damaged_files(name: str, seed: int) -> None:
    agree(damaged(file_bytes(name) if name else sound().pack(), seed))


def test_shapes_are_not_checked_in_a_graph_that_calls_itself() -> None:
    changes = [case[2] for case in CASES if case[0] in ("recursion", "operator-shape")]
    assert {f.rule for f in findings(*changes)} == {"recursion"}
