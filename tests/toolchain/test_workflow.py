# SPDX-License-Identifier: Apache-2.0
"""Workflow files: the order of their steps, the words of a step, and the errors of wrong files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.onecc import words_of
from circlekit.toolchain.option import DriverError
from circlekit.toolchain.session import Session
from circlekit.toolchain.workflow import Step, _has_cycle_for_one, read_workflow

pytestmark = pytest.mark.usefixtures("work")  # each test runs in a folder of its own

Run = Callable[..., tuple[int, str, str]]

STEP = {"one-cmd": "one-pack", "commands": {"input_path": "a", "n": [1, 2], "on": True}}
STEPS = {"steps": ["S"], "S": STEP}
EMPTY: dict[str, Any] = {"steps": []}
WRONG_STEPS: list[Any] = [
    "one-cmd and commands", {"commands": {}}, {"one-cmd": "x"}, {"one-cmd": "x", "commands": []},
]  # fmt: skip


def read(document: object) -> tuple[list[Step], list[str]]:
    """Return the steps and the warnings of a workflow file that contains ``document``."""
    Path("flow.json").write_text(json.dumps(document))
    warnings: list[str] = []
    return read_workflow("flow.json", warnings.append), warnings


def test_steps_run_drivers_or_configuration_files() -> None:
    document = {
        "workflows": ["A", "B"],
        "A": {"cfg-reference": {"path": "a.cfg"}},
        "B": {"run-after": ["A"], "steps": ["T", "S"], "S": STEP, "T": {"one-cmd": "x", "commands": {}}},
        "C": "no workflow, as the list does not name it",
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


@pytest.mark.parametrize(
    ("waits", "order"),
    [
        ({"d": ["a"], "b": [], "a": ["c"], "c": []}, ["b", "c", "a", "d"]),
        ({"d": [], "a": [], "b": ["a"], "c": []}, ["d", "a", "c", "b"]),  # in the first round, b waits
        ({"a": [], "d": ["c"], "b": [], "c": []}, ["a", "b", "c", "d"]),  # "c" is first named by d, before b
    ],
)
def test_workflows_keep_the_order_of_the_file_in_each_round(
    waits: dict[str, list[str]], order: list[str]
) -> None:
    names = list(waits)
    document: dict[str, Any] = {"workflows": names}
    for name in names:
        document[name] = {"cfg-reference": {"path": name}, "run-after": waits[name]}
    steps, warnings = read(document)
    assert [step.configuration for step in steps] == order
    assert len(warnings) == 1  # ONE refuses this file


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


# -- run by onecc -------------------------------------------------------------------------------


def workflow(*names: str, after: dict[str, list[str]]) -> dict[str, object]:
    """Return a workflow file whose workflows each optimize the model into NAME.circle.

    ``after``: {workflow: the workflows for which it waits}; the others wait for none.
    """
    document: dict[str, object] = {"workflows": list(names)}
    for name in names:
        commands = {"input_path": "net.tflite", "output_path": f"{name}.circle"}
        document[name] = {
            "steps": ["S"],
            "S": {"one-cmd": "one-optimize", "commands": commands},
            "run-after": after.get(name, []),
        }
    return document


def test_onecc_runs_workflows_after_those_for_which_they_wait(
    run: Run, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(
        "circlekit.toolchain.optimization.optimize",
        lambda invocation, session: order.append(invocation.values["output_path"]),
    )
    document = workflow("A", "B", "C", "D", after={"A": ["C"], "C": ["D"]})
    (work / "flow.json").write_text(json.dumps(document))
    code, out, errors = run(["-W", "flow.json"])
    assert (code, out) == (0, "")
    assert errors.startswith(
        "WARNING: ONE's onecc refuses flow.json (Workflows should not have a cycle), although"
    )
    assert order == ["B.circle", "D.circle", "C.circle", "A.circle"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"workflows": ["A", "Z"]}, 'ValueError: Not found Z key listed in "workflows" (flow.json)'),
        ({"A": {"steps": ["S"], "S": {"one-cmd": "one-pak", "commands": {}}}},
         "ValueError: flow.json: A: S: unknown one-cmd 'one-pak'; did you mean one-pack?"),
        ({"A": {"steps": ["S"], "S": {"one-cmd": "", "commands": {}}}},
         "ValueError: flow.json: A: S: unknown one-cmd ''"),
        ({"A": {"cfg-reference": {"path": "none.cfg"}}},
         "FileNotFoundError: Not found given configuration file: none.cfg"),
    ],
)  # fmt: skip
def test_the_error_of_a_wrong_workflow_is_one_line(
    run: Run, work: Path, change: dict[str, object], expected: str
) -> None:
    (work / "flow.json").write_text(json.dumps({**workflow("A", "B", after={}), **change}))
    code, out, errors = run(["-W", "flow.json"])
    assert (code, out) == (255, "")
    assert errors.startswith(f"onecc: {expected}")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("tool", "keys", "expected"),
    [
        ("one-optimize", {"fuse-gelu": "yes", "input_path": "a"}, ["--fuse_gelu", "--input_path=a"]),
        ("one-optimize", {"fuse_gelu": "no", "input_path": ""}, []),
        ("one-quantize", {"scale": "2"}, ["--scale=2"]),
        ("one-import-tf", {"model_format": "saved_model"}, ["--model_format=saved_model"]),
        ("one-infer", {"command": "a b", "driver": "x"}, ["--driver=x", "--", "a", "b"]),
    ],
)
def test_keys_of_a_step_become_words(tool: str, keys: dict[str, str], expected: list[str]) -> None:
    assert words_of(all_drivers()[tool], keys, "here") == expected


@pytest.mark.parametrize(
    ("tool", "keys", "expected"),
    [
        ("one-optimize", {"fuse_gelo": "yes"}, "unrecognized: fuse_gelo (here; did you mean fuse_gelu"),
        ("one-infer", {"odd": "1"}, "one-infer: the following arguments are unrecognized: odd (here"),
        (
            "one-optimize",
            {"fuse_gelu": "2"},
            "here: one-optimize: fuse_gelu: expected True or False, got '2'",
        ),
    ],
)
def test_wrong_keys_of_a_step_are_refused(tool: str, keys: dict[str, str], expected: str) -> None:
    with pytest.raises(DriverError) as caught:
        words_of(all_drivers()[tool], keys, "here")
    assert expected in caught.value.message


def test_keys_of_a_backend_become_its_options() -> None:
    """All keys are passed on, as circlekit does not know the options of a backend's compiler."""
    driver, keys = all_drivers()["one-codegen"], {"backend": "npu", "opt_level": "7"}
    for more, command in (({}, []), ({"command": "-x y"}, ["-x", "y"])):
        words = words_of(driver, keys | more, "flow.json")
        assert words == ["--backend=npu", *(["--"] if more else []), "--opt_level", "7", *command]
        call = driver.resolve(words, Session())
        assert (call.values["backend"], call.backend_words) == ("npu", ["--opt_level", "7", *command])


def test_texts_of_a_step_may_begin_with_a_dash(run: Run, work: Path) -> None:
    (work / "flow.json").write_text(json.dumps(workflow("-A", after={})))
    assert run(["-W", "flow.json"])[::2] == (0, "")
    assert (work / "-A.circle").exists()


@pytest.mark.parametrize(
    ("waits", "is_refused"),
    [
        ({}, False),
        ({"b": ["a"]}, False),
        ({"c": ["a"]}, False),
        ({"a": ["c"]}, False),
        ({"c": ["b"]}, True),
        ({"b": ["c"]}, True),
        ({"b": ["a"], "c": ["a"]}, True),
        ({"c": ["b", "a"]}, False),
    ],
)
def test_onecc_of_one_accepts_a_single_waiting_workflow_that_is_the_first_or_waits_for_it(
    waits: dict[str, list[str]], is_refused: bool
) -> None:
    """``waits``: {workflow: those for which it waits}; a is the first workflow of the file."""
    names = ["a", "b", "c"]
    assert _has_cycle_for_one(names, {name: waits.get(name, []) for name in names}) is is_refused
