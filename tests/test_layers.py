# SPDX-License-Identifier: Apache-2.0
"""The imports of the package: layers, cycles, imports inside functions, and what single layers may name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "compiler" / "circlekit"

BELOW: dict[str, set[str]] = {
    "errors": set(),
    "ir": {"errors"},
    "ops": {"ir"},
    "io": {"ir"},
    "interp": {"ops"},
    "rewrite": {"ops"},
    "targets": {"ops"},
    "index_maps": {"ops"},
    "passes": {"rewrite", "interp", "targets", "index_maps"},
    "equivalence": {"passes", "io"},
    "recipes": {"equivalence", "io"},
    "quant": {"equivalence", "io"},
    "structure": {"equivalence", "io"},
    "api": {"equivalence", "recipes", "quant", "structure", "io"},
    "testing": {"api"},
    "toolchain": {"api"},
    "report": {"equivalence", "io"},
    "cli": {"api", "toolchain", "report"},
    "__main__": {"cli"},
}
"""Each layer and those directly below it; a layer may import all below it."""


class Import(NamedTuple):
    """A module that an import statement names.

    ``reason``: whether the last line of the statement has a comment.
    """

    module: str
    line: int
    in_function: bool
    reason: bool


def module_name(path: Path) -> str:
    """The dotted name of the module in a file of the package."""
    return ".".join(["circlekit", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def imports(module: str) -> tuple[Import, ...]:
    """Return the imports in a module of the package, those for type checkers included."""
    text = FILES[module].read_text()
    lines = text.splitlines()
    return tuple(
        Import(name, node.lineno, in_function, "# " in lines[(node.end_lineno or node.lineno) - 1])
        for node, in_function in import_statements(ast.parse(text))
        for name in imported_names(node, module)
    )


def import_statements(
    block: ast.AST, in_function: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield the import statements inside a module or statement, and whether each is in a function."""
    for node in ast.iter_child_nodes(block):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, in_function
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from import_statements(node, in_function or is_function)


def imported_names(node: ast.Import | ast.ImportFrom, module: str) -> Iterator[str]:
    """Yield the modules that a statement imports; ``from package import submodule`` gives the submodule."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    if node.level or not node.module:
        raise AssertionError(f"{module}:{node.lineno}: write an absolute import")
    for alias in node.names:
        submodule = f"{node.module}.{alias.name}"
        yield submodule if submodule in FILES else node.module


def layer_of(module: str) -> str:
    """The layer that a module of the package is in; "" for the package itself."""
    return ".".join(module.split(".")[1:2])


def allowed(layer: str, below: Mapping[str, set[str]] = BELOW) -> set[str]:
    """``layer`` and everything below it."""
    return {layer}.union(*(allowed(lower, below) for lower in below[layer]))


def dependencies(module: str) -> set[str]:
    """Return the modules of the package that ``module`` imports, and the parent packages of these modules.

    Imports inside functions count.  ``module`` itself and its own parent packages do not.
    """
    found: set[str] = set()
    for item in imports(module):
        parts = item.module.split(".")
        found.update(".".join(parts[:count]) for count in range(2, len(parts) + 1))
    return {name for name in found if name in FILES and not f"{module}.".startswith(f"{name}.")}


def cycles() -> list[list[str]]:
    """Every group of modules that import each other in a cycle (strongly connected components, Tarjan)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in sorted(dependencies(module)):
            if other not in order:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in FILES:
        if module not in order:
            visit(module)
    return found


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/design.md"])
def test_pages_draw_these_layers(page: str) -> None:
    text = (PACKAGE.parents[1] / page).read_text()
    (drawing,) = re.findall(r"^```\n(cli -> .*?)^```$", text, re.MULTILINE | re.DOTALL)
    drawn: dict[str, set[str]] = {"__main__": {"cli"}}  # which the pages leave out
    for line in drawing.splitlines():
        for upper, lower in pairwise(group.split(", ") for group in line.split(" -> ")):
            for layer in upper:
                drawn.setdefault(layer, set()).update(lower)
    drawn.setdefault("errors", set())
    assert {layer: allowed(layer, drawn) for layer in drawn} == {layer: allowed(layer) for layer in BELOW}


def test_imports_go_down_only() -> None:
    wrong = []
    for module in FILES:
        layer = layer_of(module)
        if not layer:
            continue
        assert layer in BELOW, f"{module} is in no layer: add {layer} to BELOW"
        wrong += [
            f"{module}:{item.line} imports {item.module}; {layer} may import {sorted(allowed(layer))}"
            for item in imports(module)
            if item.module.startswith("circlekit.") and layer_of(item.module) not in allowed(layer)
        ]
        # through ``circlekit`` itself, a module would reach all layers
        wrong += [
            f"{module}:{item.line} imports circlekit; import from the module that defines the name, "
            f"such as circlekit.rewrite for Rewrite"
            for item in imports(module)
            if item.module == "circlekit"
        ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other_in_a_cycle() -> None:
    found = cycles()
    assert not found, "\n".join(", ".join(group) for group in found)


def test_an_import_inside_a_function_says_why() -> None:
    """A good reason is a heavy or an optional dependency.

    The modules of ``cli`` need no reason: a command imports what it runs when it runs it.
    """
    wrong = [
        f"{module}:{item.line}: import {item.module} at the top, or say in a comment why it waits"
        for module in FILES
        for item in imports(module)
        if item.in_function and not item.reason and layer_of(module) not in ("", "cli")
    ]
    assert not wrong, "\n".join(wrong)


def test_only_io_imports_flatbuffers() -> None:
    wrong = [
        module
        for module in FILES
        if layer_of(module) != "io" and any(i.module.split(".")[0] == "flatbuffers" for i in imports(module))
    ]
    assert not wrong


def operator_codes() -> set[str]:
    """The codes that the operator classes of ops/ are declared with."""
    return {
        keyword.value.value
        for module, path in FILES.items()
        if layer_of(module) == "ops"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for keyword in node.keywords
        if keyword.arg == "code"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
    }


def test_io_and_rewrite_name_no_operator() -> None:
    codes = operator_codes()
    assert len(codes) > 100
    for module, path in FILES.items():
        if layer_of(module) not in ("io", "rewrite") or path.name == "tables.py":
            continue  # tables.py: the generated tables of the schema
        words = {n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)}
        assert not words & codes, f"{module} names {words & codes}"
        assert not any(item.module.startswith("circlekit.ops.") for item in imports(module)), module
