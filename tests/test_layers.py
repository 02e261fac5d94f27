# SPDX-License-Identifier: Apache-2.0
"""Imports go down only: every import of the package is read and held against the layers."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TypeGuard

import pytest

PACKAGE = Path(__file__).parents[1] / "compiler" / "circlekit"

BELOW = {
    "errors": set(),
    "ir": {"errors"},
    "ops": {"ir"},
    "io": {"ir"},
    "interp": {"ops"},
    "rewrite": {"ops"},
    "passes": {"rewrite", "interp"},
    "equivalence": {"passes", "io"},
    "recipes": {"equivalence", "io"},
    "quant": {"equivalence", "io"},
    "api": {"equivalence", "recipes", "quant", "io"},
    "cli": {"api", "equivalence", "recipes", "quant", "io"},
}
"""Each layer and those right below it; a layer may import itself and all that are below."""


def closure(layer: str) -> set[str]:
    """``layer`` and everything below it."""
    return {layer}.union(*(closure(lower) for lower in BELOW[layer]))


def imports(path: Path) -> list[tuple[str, bool]]:
    """(module, whether the import is inside a function) of every import in a file."""
    tree = ast.parse(path.read_text())
    inner = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    found: list[tuple[str, bool]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node in inner) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.append((node.module or "", node in inner))
        elif _is_deferred(node):
            found.append((ast.literal_eval(node.args[0]), False))
    return found


def _is_deferred(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether this is an import that waits for a use: of a module with a name that is written there."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("deferred", "import_module")
        and isinstance(node.args[0], ast.Constant)
    )


FILES = sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path) -> None:
    layer = layer_of(path)
    if layer == "__init__":
        return
    assert layer in BELOW, f"{path} is in no layer"
    for module, inside in imports(path):
        if module.split(".")[0] == "circlekit" and module != "circlekit":
            target = module.split(".")[1]
            assert target in closure(layer), f"{layer} imports {module}"
        assert not inside or layer == "cli", f"an import of {module} hides in a function"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_io_knows_flatbuffers(path: Path) -> None:
    modules = {module.split(".")[0] for module, _ in imports(path)}
    assert "flatbuffers" not in modules or layer_of(path) == "io"


def operator_codes() -> set[str]:
    """The codes that the classes of ops/ are declared with."""
    return {
        keyword.value.value
        for path in (PACKAGE / "ops").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for keyword in node.keywords
        if keyword.arg == "code"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
    }


@pytest.mark.parametrize("layer", ["io", "rewrite"])
def test_the_engine_names_no_operator(layer: str) -> None:
    """Not as a code; it cannot as a class, for it may not import ops (rewrite only to declare them)."""
    codes = operator_codes()
    assert len(codes) > 100
    for path in (PACKAGE / layer).rglob("*.py"):
        if path.name == "tables.py":
            continue
        words = {n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)}
        assert not words & codes, f"{path} names {words & codes}"
        assert not any(module.startswith("circlekit.ops.") for module, _ in imports(path))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_what_is_deferred_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if _is_deferred(node) and isinstance(node.func, ast.Name) and node.func.id == "deferred":
            module, name = map(ast.literal_eval, node.args)
            assert callable(getattr(import_module(module), name))
