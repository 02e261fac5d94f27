# SPDX-License-Identifier: Apache-2.0
"""Read workflow files: JSON that lists workflows.  A workflow is a configuration file, or a list of steps.

{"workflows": ["A", "B"],
 "A": {"cfg-reference": {"path": "a.cfg"}},
 "B": {"run-after": ["A"], "steps": ["S"],
       "S": {"one-cmd": "one-pack", "commands": {"input_path": "a.circle", "output_path": "a_pkg"}}}}

``run-after``: the workflows that must run before.  ``one-cmd``: the driver of a step.  ``commands``: its
options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from circlekit.errors import did_you_mean
from circlekit.toolchain.configuration import read_workflow_json, text_of
from circlekit.toolchain.option import DriverError

WORKFLOWS, AFTER, REFERENCE, STEPS = "workflows", "run-after", "cfg-reference", "steps"
TOOL, COMMANDS = "one-cmd", "commands"
"""The keys of a workflow file; the text at the top of this file shows where each stands."""


@dataclass(frozen=True)
class Step:
    """A step of a workflow: it runs a driver or, if ``configuration`` is not None, a configuration file.

    ``tool``: the name of the driver.  ``keys``: the texts of its options, by key.
    ``configuration``: the path of the configuration file.
    ``where``: the place of the driver's step (file, workflow, step), for errors.
    """

    tool: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    configuration: str | None = None
    where: str = ""


def read_workflow(path: str, warn: Callable[[str], None]) -> list[Step]:
    """Return the steps of a workflow file in the order to run them.

    The order has rounds.  Each round takes, in the order of the file, the workflows whose lists ``run-after``
    name only workflows of earlier rounds.
    ``warn``: is called with a warning if ONE would refuse a file that is accepted here.
    Raise DriverError, in ONE's words, if the file is wrong, or if workflows wait for each other in a cycle.
    """
    document = read_workflow_json(path)
    names = _workflows(document, path)
    waits = {name: list(document[name].get(AFTER, [])) for name in names}
    graph = TopologicalSorter(waits)
    try:
        graph.prepare()
    except CycleError as error:
        cycle = " -> ".join(error.args[1])
        raise DriverError("RuntimeError", f"Workflows should not have a cycle: {path}: {cycle}") from None
    if _has_cycle_for_one(names, waits):
        warn(
            f"WARNING: ONE's onecc refuses {path} (Workflows should not have a cycle), although it has none: "
            f'ONE accepts at most one workflow with "{AFTER}", the first of the file or one that waits for it'
        )
    order: list[str] = []
    while graph.is_active():
        ready = sorted(graph.get_ready(), key=names.index)
        order += ready
        graph.done(*ready)
    return [step for name in order for step in _steps(document[name], f"{path}: {name}")]


def _has_cycle_for_one(names: Sequence[str], waits: Mapping[str, Collection[str]]) -> bool:
    """Return whether ONE would report a cycle for these workflows, which have none.

    A workflow waits for those in its list ``run-after``.  ONE orders workflows by a depth-first search from
    the first workflow of the file.  Then ONE checks that each workflow comes before those that wait for it.
    The check has a mistake: all workflows share one list of those that wait, so each workflow must come
    before every other workflow that waits.  So ONE accepts at most one workflow that waits, and it must be
    the last of the order.  The search puts it last in two cases: it is the first workflow of the file, or it
    waits for the first.
    ``names``: the workflows in the order of the file.  ``waits``: {workflow: those for which it waits}.
    """
    waiting = [name for name in names if waits[name]]
    return len(waiting) > 1 or any(names[0] not in (name, *waits[name]) for name in waiting)


def _workflows(document: Any, path: str) -> list[str]:
    """Return the names of the workflows in the order of the file; raise DriverError if one is wrong."""

    def fault(message: str) -> DriverError:
        """Return an error with the path of the file."""
        return DriverError("ValueError", f"{message} ({path})")

    if not isinstance(document, dict) or WORKFLOWS not in document:
        raise fault(f'Not found "{WORKFLOWS}" key in workflow file')
    names = _names(document, WORKFLOWS, path)
    for name in names:
        if not isinstance(document.get(name), dict):
            raise fault(f'Not found {name} key listed in "{WORKFLOWS}"')
    for name in names:
        given = [key for key in (STEPS, REFERENCE) if key in document[name]]
        if not given:
            raise fault(f'Each workflow should have either "{STEPS}" or "{REFERENCE}": {name}')
        if len(given) > 1:
            raise fault(f'"{STEPS}" and "{REFERENCE}" are exclusive key: {name}')
        for before in _names(document[name], AFTER, f"{path}: {name}"):
            if before not in names:
                near = did_you_mean(before, names)
                raise fault(f'Not found {before} key listed in "{AFTER}" of {name}{near}')
    return names


def _names(item: Mapping[str, Any], key: str, where: str) -> list[str]:
    """Return the list of names in the JSON object ``item`` at ``key``; [] without this key.

    Raise DriverError if the value of the key is not a list of names.
    """
    names = item.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DriverError("ValueError", f'expected a list of names at "{key}", got {names!r} ({where})')
    return names


def _steps(workflow: Mapping[str, Any], where: str) -> list[Step]:
    """Return the steps of the JSON object ``workflow``; raise DriverError if it is wrong.

    ``where``: the place of the workflow, for errors.
    """
    if REFERENCE in workflow:
        path = workflow[REFERENCE].get("path") if isinstance(workflow[REFERENCE], dict) else None
        if not isinstance(path, str):
            raise DriverError("ValueError", f'"{REFERENCE}" should have "path" ({where})')
        return [Step(configuration=path)]
    return [_step(workflow.get(name), f"{where}: {name}") for name in _names(workflow, STEPS, where)]


def _step(step: Any, where: str) -> Step:
    """Return the step in a JSON object; raise DriverError if it is wrong."""
    if not isinstance(step, dict) or TOOL not in step or not isinstance(step.get(COMMANDS), dict):
        raise DriverError("ValueError", f'Each step should have "{TOOL}" and "{COMMANDS}" ({where})')
    keys = {key: text_of(value, f"{where}: {key}") for key, value in step[COMMANDS].items()}
    return Step(str(step[TOOL]), keys, where=where)
