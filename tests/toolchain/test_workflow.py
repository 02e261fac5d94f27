# SPDX-License-Identifier: Apache-2.0
"""Workflow files: the order of their steps, and what is wrong in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from circlekit.toolchain.option import DriverError
from circlekit.toolchain.workflow import Step, read_workflow

STEP = {"one-cmd": "one-pack", "commands": {"input_path": "a", "n": [1, 2], "on": True}}
STEPS = {"steps": ["S"], "S": STEP}
EMPTY: dict[str, Any] = {"steps": []}
WRONG_STEPS: list[Any] = [
    "x", "one-cmd", {"commands": {}}, {"one-cmd": "x"}, {"one-cmd": "x", "commands": []},
]  # fmt: skip


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(document: object) -> tuple[list[Step], list[str]]:
    Path("flow.json").write_text(json.dumps(document))
    warnings: list[str] = []
    return read_workflow("flow.json", warnings.append), warnings


def test_steps_run_drivers_or_configuration_files() -> None:
    document = {
        "workflows": ["A", "B"],
        "A": {"cfg-reference": {"path": "a.cfg"}},
        "B": {"run-after": ["A"], "steps": ["T", "S"], "S": STEP, "T": {"one-cmd": "x", "commands": {}}},
        "C": "ignored",
    }
    steps, warnings = read(document)
    keys = {"input_path": "a", "n": "1,2", "on": "True"}
    assert steps == [
        Step(configuration="a.cfg"),
        Step("x", {}, where="flow.json: B: T"),
        Step("one-pack", keys, where="flow.json: B: S"),
    ]
    assert warnings == []


def test_no_workflow_has_no_steps() -> None:
    assert read({"workflows": []}) == ([], [])
    assert read({"workflows": ["A"], "A": EMPTY}) == ([], [])


def test_workflows_keep_the_order_of_the_file() -> None:
    names = ["d", "b", "a", "c"]
    waits = {"d": ["a"], "b": [], "a": ["c"], "c": []}
    document: dict[str, Any] = {"workflows": names}
    for name in names:
        document[name] = {"cfg-reference": {"path": name}, "run-after": waits[name]}
    steps, warnings = read(document)
    assert [step.configuration for step in steps] == ["b", "c", "a", "d"]
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], 'Not found "workflows" key in workflow file (flow.json)'),
        (["workflows"], 'Not found "workflows" key in workflow file (flow.json)'),
        ({"A": STEPS}, 'Not found "workflows" key in workflow file (flow.json)'),
        ({"workflows": "A", "A": STEPS}, "expected a list of names at \"workflows\", got 'A' (flow.json)"),
        ({"workflows": None}, 'expected a list of names at "workflows", got None (flow.json)'),
        ({"workflows": ["A", 1], "A": STEPS}, 'expected a list of names at "workflows", got [\'A\', 1]'),
        ({"workflows": ["A"]}, 'Not found A key listed in "workflows" (flow.json)'),
        ({"workflows": ["A"], "A": ["steps"]}, 'Not found A key listed in "workflows" (flow.json)'),
        ({"workflows": ["A"], "A": {"S": STEP}}, 'should have either "steps" or "cfg-reference": A'),
        ({"workflows": ["A"], "A": {**STEPS, "cfg-reference": {}}}, "are exclusive key: A (flow.json)"),
        ({"workflows": ["A"], "A": {**STEPS, "run-after": "A"}}, 'at "run-after", got \'A\' (flow.json: A)'),
        (
            {"workflows": ["One", "Two"], "One": {**STEPS, "run-after": ["two"]}, "Two": STEPS},
            'Not found two key listed in "run-after" of One; did you mean Two? (flow.json)',
        ),
        ({"workflows": ["A"], "A": {"cfg-reference": "a"}}, 'should have "path" (flow.json: A)'),
        ({"workflows": ["A"], "A": {"cfg-reference": {}}}, 'should have "path" (flow.json: A)'),
        ({"workflows": ["A"], "A": {"steps": ["S"]}}, 'and "commands" (flow.json: A: S)'),
        *(
            ({"workflows": ["A"], "A": {"steps": ["S"], "S": step}}, "(flow.json: A: S)")
            for step in WRONG_STEPS
        ),
        (
            {"workflows": ["A"], "A": {"steps": ["S"], "S": {**STEP, "commands": {"a": None}}}},
            "flow.json: A: S: a: expected a text, a number",
        ),
        (
            {"workflows": ["A", "B", "C"], "A": EMPTY, "B": {**EMPTY, "run-after": ["C"]},
             "C": {**EMPTY, "run-after": ["B"]}},
            "Workflows should not have a cycle: flow.json: ",
        ),
    ],
)  # fmt: skip
def test_wrong_workflow_files(document: object, message: str) -> None:
    with pytest.raises(DriverError) as caught:
        read(document)
    assert message in caught.value.message


def test_a_cycle_is_shown() -> None:
    waiting = {**EMPTY, "run-after": ["A"]}
    with pytest.raises(DriverError, match=r"cycle: flow.json: A -> A"):
        read({"workflows": ["A"], "A": waiting})
