# SPDX-License-Identifier: Apache-2.0
"""Mutation testing: change one expression at a time and see whether the tests of its part notice.

    python -m tools.mutate --count 200 --seed 7
    python -m tools.mutate --part equivalence --part ops/movement --count 20 --seed 1 --jobs 2

A mutation replaces one comparison, arithmetic or boolean operator, or adds 1 to a small integer.  It is
applied to a copy of the package; then the tests of the part (``compiler/circlekit/ops/...`` -> ``tests/ops``)
run until the first failure, those with the nearest names first.  A mutation that they do not notice is
printed as a survivor.  Mutations that cannot change any behaviour are listed, with the reason, in
``tools/equivalent_mutations.toml``, and do not count.  Before all that, the tests must pass without mutation.

Exit code 0 if at least ``--least`` percent are found.
"""

from __future__ import annotations

import ast
import compileall
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import NamedTuple

from tools.sweep import sweep, tool_parser

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("compiler/circlekit")
EQUIVALENT = Path(__file__).with_name("equivalent_mutations.toml")

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "+"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
BOOLEAN: dict[type[ast.boolop], tuple[str, str]] = {ast.And: ("and", "or"), ast.Or: ("or", "and")}

SMALL_INTEGER = 16
"""Integer literals from 0 to this number are mutated."""

TIMEOUT_SECONDS = 600


class Mutation(NamedTuple):
    """``old`` at byte offset ``start`` of ``path`` becomes ``new``; ``text``: the source line."""

    path: Path
    line: int
    start: int
    old: str
    new: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.old} -> {self.new} in `{self.text}`"


def mutations(path: Path) -> Iterator[Mutation]:
    """Yield every possible mutation of a file."""
    source = (ROOT / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    skipped = set(_left_out(tree))

    def between(left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Mutation]:
        """Yield the mutation of the operator ``old`` between two expressions, unless a comment is there."""
        assert left.end_lineno is not None
        assert left.end_col_offset is not None
        first = starts[left.end_lineno - 1] + left.end_col_offset
        last = starts[right.lineno - 1] + right.col_offset
        at = source.find(old.encode(), first, last)
        if at >= 0 and b"#" not in source[first:last]:
            yield made(at, left.end_lineno, old, new)

    def made(at: int, line: int, old: str, new: str) -> Mutation:
        text = source[starts[line - 1] : starts[line]].decode().strip()
        return Mutation(path, line, at, old, new, text)

    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Compare):
            for left, op, right in zip(
                [node.left, *node.comparators], node.ops, node.comparators, strict=False
            ):
                yield from between(left, right, *COMPARISONS[type(op)])
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            yield from between(node.left, node.right, *ARITHMETIC[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from between(left, right, *BOOLEAN[type(node.op)])
        elif isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) <= SMALL_INTEGER:
            at = starts[node.lineno - 1] + node.col_offset
            old = source[at : at + (node.end_col_offset or 0) - node.col_offset].decode()
            if old.isdigit():
                yield made(at, node.lineno, old, str(node.value + 1))


def _left_out(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes that are not mutated, because most mutations there change nothing.

    These are annotations, imports for type checkers, f-strings, and negative numbers.
    """
    for node in ast.walk(tree):
        unused: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign | ast.arg):
            unused.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            unused.append(node.returns)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            unused += node.body
        elif isinstance(node, ast.JoinedStr):
            unused.append(node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            unused.append(node)  # reshape(-1), axis=-1: another negative number means the same
        for item in unused:
            if item is not None:
                yield from ast.walk(item)


def test_folders(path: Path) -> list[Path]:
    """Return the test folders of a module: for its part, and for an inner folder or file named like a part.

    ``cli/quant/x.py`` -> ``tests/cli``, ``tests/quant``; ``api/structure.py`` -> ``tests/api``,
    ``tests/structure``; ``quant/one/x.py`` -> ``tests/quant`` alone, because no part is named ``one``.
    """
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    named = [ROOT / "tests" / name for name in parts if (ROOT / PACKAGE / name).exists()]
    return [folder for folder in dict.fromkeys(named) if folder.is_dir()]


def tests_of(mutation: Mutation) -> list[list[str]]:
    """Return the test files of the mutated part in groups: of the module, of its folder, then all others."""
    folders, stem = test_folders(mutation.path), mutation.path.stem
    if not folders:
        return [sorted(str(p.relative_to(ROOT)) for p in (ROOT / "tests").glob("test_*.py"))]
    mirrored = ROOT / "tests" / mutation.path.relative_to(PACKAGE).parent
    every = [path for folder in folders for path in sorted(folder.rglob("test_*.py"))]
    named = [path for path in every if stem in path.stem]
    named += [path for path in sorted((ROOT / "tests").rglob(f"test_{stem}.py")) if path not in named]
    near = [path for path in every if mirrored in path.parents or path.parent in folders]
    groups, seen = [], set[Path]()
    for group in (named, near, every):
        groups.append([str(path.relative_to(ROOT)) for path in group if path not in seen])
        seen.update(group)
    return [group for group in groups if group]


def passes(tests: list[str], copy: Path) -> bool:
    """Return whether ``tests`` pass on a copy of the package; a run that exceeds the time limit fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy / "compiler"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode in (0, 5)  # 5: pytest found no tests


def is_found(mutation: Mutation, copy: Path) -> bool:
    """Return whether the tests of the mutated part fail on a copy of the package with this mutation."""
    target = copy / mutation.path
    original = target.read_bytes()
    end = mutation.start + len(mutation.old)
    assert original[mutation.start : end] == mutation.old.encode()
    target.write_bytes(original[: mutation.start] + mutation.new.encode() + original[end:])
    try:
        return not all(passes(tests, copy) for tests in tests_of(mutation))
    finally:
        target.write_bytes(original)


def equivalents() -> set[tuple[str, str]]:
    """Return (path and replacement, source line) of mutations that change nothing; ``*``: any replacement."""
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutation"]
    return {(f"{e['path']}: {e['change']}", e["line"]) for e in entries}


def is_equivalent(mutation: Mutation, known: set[tuple[str, str]]) -> bool:
    """Return whether ``mutation`` is among ``known``, the result of ``equivalents``."""
    changes = (f"{mutation.old} -> {mutation.new}", "*")
    return any((f"{mutation.path}: {change}", mutation.text) in known for change in changes)


def try_all(chosen: list[Mutation], jobs: int) -> Iterator[tuple[Mutation, bool, float]]:
    """Yield (mutation, whether the tests find it, the seconds of its test run); try ``jobs`` at a time.

    If the tests fail without any mutation, end the program with a message.
    """
    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()

    def tried(mutation: Mutation) -> tuple[Mutation, bool, float]:
        copy, start = copies.get(), time.monotonic()
        try:
            return mutation, is_found(mutation, copy), time.monotonic() - start
        finally:
            copies.put(copy)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for job in range(jobs):
            copy = Path(folder) / str(job)
            shutil.copytree(ROOT / "compiler", copy / "compiler", ignore=ignored)
            compileall.compile_dir(copy, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
            copies.put(copy)
        files = sorted({path for mutation in chosen for group in tests_of(mutation) for path in group})
        parts = [list(group) for _, group in groupby(files, lambda path: Path(path).parts[1])]
        are_green = pool.map(lambda part: passes(part, copy), parts)
        broken = [part[0] for part, is_green in zip(parts, are_green, strict=True) if not is_green]
        if broken:
            sys.exit("tests fail without any mutation, in the folders of: " + ", ".join(broken))
        yield from pool.map(tried, chosen)


def main() -> int:
    parser = tool_parser("mutate", __doc__)
    parser.add_argument("--count", type=int, default=200, help="how many mutations to try")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    parser.add_argument(
        "--part", action="append", default=[], help="folder or module of compiler/circlekit; may be repeated"
    )
    parser.add_argument("--jobs", type=int, default=1, help="mutations tried at a time")
    parser.add_argument("--least", type=float, default=90, help="percent that must be found")
    asked = parser.parse_args()
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    every = [m for f in files if f.name != "tables.py" for m in mutations(f.relative_to(ROOT))]
    # a part is a folder or a module; a module counts as a folder with its name
    folders = tuple(f"{PACKAGE / part}".removesuffix(".py") + "/" for part in asked.part or [""])
    possible = [m for m in every if f"{m.path.with_suffix('')}/".startswith(folders)]
    drawn = random.Random(asked.seed).sample(possible, min(asked.count, len(possible)))
    known = equivalents()
    chosen = [m for m in drawn if not is_equivalent(m, known)]
    killed = number = 0
    with sweep(len(chosen), "mutations") as line:
        for number, (mutation, found, seconds) in enumerate(line.each(try_all(chosen, asked.jobs)), 1):
            killed += found
            verdict = "found" if found else "SURVIVED"
            line.hide()
            print(f"{number}/{len(chosen)} {verdict} in {seconds:.0f} s: {mutation}", flush=True)
    percent = 100 * killed / max(number, 1)
    same = len(drawn) - len(chosen)
    print(f"{killed} of {number} mutations found ({percent:.0f} %), {same} equivalent left out")
    return line.exit_code(percent < asked.least)


if __name__ == "__main__":
    sys.exit(main())
