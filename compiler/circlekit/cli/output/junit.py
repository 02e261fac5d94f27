# SPDX-License-Identifier: Apache-2.0
"""Write the results of dredd as JUnit XML, which continuous integration servers show.

One test suite has a test case for each recipe, in the order of the recipes.  A failure has the reason as its
message.  All further lines, such as the model after the passes, and the notes are in its ``system-out``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from circlekit.cli.output.terminal import printable
from circlekit.recipes.dredd_cases import Case

if TYPE_CHECKING:
    from circlekit.recipes.dredd import Result


def junit_xml(cases: Sequence[Case], results: Sequence[Result]) -> bytes:
    """Return the results of ``cases`` as an XML document.

    A test that has the name and folder of an earlier test gets a number: add, add.2, add.3.
    """
    failed = sum(bool(result.failures) for result in results)
    totals = {
        "name": "dredd",
        "tests": str(len(results)),
        "failures": str(failed),
        "errors": "0",
        "skipped": "0",
        "time": f"{sum(result.seconds for result in results):.6f}",
    }
    suites = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(suites, "testsuite", totals)
    seen: Counter[tuple[str, str]] = Counter()
    for case, result in zip(cases, results, strict=True):
        folder = _dotted(case.recipe)
        seen[folder, result.name] += 1
        number = seen[folder, result.name]
        name = result.name if number == 1 else f"{result.name}.{number}"
        _add_case(suite, folder, name, result)
    ElementTree.indent(suites)
    document: bytes = ElementTree.tostring(suites, "utf-8", xml_declaration=True)
    return document + b"\n"


def _dotted(recipe: Path | None) -> str:
    """Return the folder of a recipe, such as a/b, in the form of a class name, a.b.

    Servers group tests by class.  The folders ``.`` and ``..`` are left out.  Without a folder: "dredd".
    """
    parts = () if recipe is None else recipe.parent.parts
    return printable(".".join(part.strip("./") for part in parts if part.strip("./")) or "dredd")


def _add_case(suite: ElementTree.Element, folder: str, name: str, result: Result) -> None:
    """Add the test case for ``result`` to ``suite``; ``folder``: the class name."""
    attributes = {"classname": folder, "name": printable(name), "time": f"{result.seconds:.6f}"}
    test = ElementTree.SubElement(suite, "testcase", attributes)
    lines = [line for failure in result.failures for line in failure.splitlines()]
    if lines:
        failure = ElementTree.SubElement(test, "failure", {"message": printable(result.reason)})
        failure.text = printable(lines[0])
    said = "\n".join([*lines[1:], *result.notes])
    if said:
        ElementTree.SubElement(test, "system-out").text = printable(said)
