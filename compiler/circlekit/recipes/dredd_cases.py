# SPDX-License-Identifier: Apache-2.0
"""Which recipe is tested with which passes: ONE's lists, ours, or a folder of recipes.

``test.lst``     ``Add(RECIPE PASS pass1 pass2)`` and ``eval(RECIPE pass1 pass2)``, over lines, ``#`` comments
``*.tsv``        a line ``recipe<tab>passes``, then one line for each case, its passes with commas between
a folder         every ``test.recipe`` and ``*.ck`` in it, in the order of their paths
a recipe         itself

A list names a recipe by its folder (``NAME/test.recipe``) or its file (``NAME.ck``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from circlekit.errors import CirclekitError, FileError, near_miss
from circlekit.io.file_map import map_file, translated
from circlekit.recipes.rules.one_rules import parse_one_rules
from circlekit.recipes.rules.rule import Rule, error_at
from circlekit.recipes.rules.rule_blocks import RuleBlock, parse_text_rules

ONE_RECIPE, ONE_RULES, TEXT = "test.recipe", "test.rule", ".ck"


@dataclass(frozen=True)
class Case:
    """One test.  ``recipe``: its path, None where the list names one that is not there; ``place``: then
    says where.

    ``format``: what the result is written as, None for what the recipe is.  ``block``: which of the blocks
    of rules in the recipe's text; None where its rules are those of ``test.rule``, if ``has_rules``.
    """

    name: str
    recipe: Path | None
    passes: tuple[str, ...] = ()
    format: str | None = None
    block: int | None = None
    has_rules: bool = False
    place: str = ""

    def rules(self) -> RuleBlock:
        """What is to hold; ParseError for what is no rule."""
        if self.recipe is None:
            raise FileError(self.place)
        if self.block is not None:
            block = parse_text_rules(read_text(self.recipe), str(self.recipe))[self.block]
            return replace(block, passes=block.passes or self.passes, format=block.format or self.format)
        path = self.recipe.with_name(ONE_RULES)
        rules: list[Rule] = []
        if self.has_rules and path.exists():
            rules += parse_one_rules(read_text(path), str(path))
        return RuleBlock(self.passes, self.format, None, rules)


def cases_of(
    path: str | Path,
    folders: Sequence[str | Path] = (),
    passes: Sequence[str] = (),
    with_rules: bool = True,
) -> list[Case]:
    """The cases of a list, a folder or a recipe.

    ``folders``: where a list's recipes are; by default beside it.  ``passes``: what to run on recipes that
    say nothing themselves.  ``with_rules``: whether ``test.rule`` is checked for a list; rules belong to the
    passes that they were written for.  FileError or ParseError for a list that cannot be read.
    """
    with translated(path, "read"):
        path = Path(path)
        is_folder = path.is_dir()
    if is_folder:
        found = [case for recipe in recipes_in(path) for case in _cases_of_recipe(recipe, passes)]
        if not found:
            raise FileError(f"{path} has no recipe: no {ONE_RECIPE} and no *{TEXT}")
        return found
    if path.suffix not in (".lst", ".tsv"):
        return _cases_of_recipe(path, passes)
    text = read_text(path)
    entries = _tsv(text, str(path)) if path.suffix == ".tsv" else _lst(text, str(path))
    return list(_listed(entries, _index(folders or [path.parent]), with_rules))


def recipes_in(folder: Path) -> list[Path]:
    """Every recipe below ``folder``, in the order of the paths."""
    return sorted([*folder.rglob(ONE_RECIPE), *folder.rglob("*" + TEXT)])


def name_of_recipe(path: Path) -> str:
    return path.absolute().parent.name if path.name == ONE_RECIPE else path.stem


def read_text(path: Path) -> str:
    """FileError where it cannot be read or is no UTF-8."""
    try:
        return bytes(map_file(path)).decode()
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is no text in UTF-8: {error}") from None


def _cases_of_recipe(path: Path, passes: Sequence[str]) -> list[Case]:
    name = name_of_recipe(path)
    if path.name == ONE_RECIPE:
        return [Case(name, path, tuple(passes))]
    try:
        blocks = parse_text_rules(read_text(path), str(path))
    except CirclekitError:  # this case fails when it is run, and the others of a folder are run too
        return [Case(name, path, tuple(passes), None, 0)]
    if not blocks:
        return [Case(name, path, tuple(passes))]
    names = [name if len(blocks) == 1 else f"{name}-{number}" for number in range(1, len(blocks) + 1)]
    return [Case(n, path, tuple(passes), None, i) for i, n in enumerate(names)]


# -- lists -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    recipe: str
    passes: tuple[str, ...]
    has_rules: bool
    place: str


def _tsv(text: str, label: str) -> Iterator[Entry]:
    """The passes of a line may also have spaces between them."""
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        fields = [field.strip() for field in line.split("\t")]
        if number == 1:
            if fields[:2] != ["recipe", "passes"]:
                raise error_at(label, text, 0, "the first line of a list must be recipe<tab>passes")
        elif line.strip() and not line.startswith("#"):
            if len(fields) > 2 or not fields[0]:
                raise error_at(label, text, at, "expected recipe<tab>passes")
            passes = re.split(r"[,\s]+", fields[1]) if len(fields) > 1 and fields[1] else []
            yield Entry(fields[0], tuple(passes), True, f"{label}:{number}:1")
        at += len(line) + 1


_COMMAND = re.compile(r"(?P<word>\w+)\s*\((?P<inside>[^()]*)\)")
_BLANK = re.compile(r"(?:\s|#[^\n]*(?:\n|$))*")
_QUANTIZER = ("DTYPE", "GRANULARITY")


def _lst(text: str, label: str) -> Iterator[Entry]:
    at = _skip(text, 0)
    while at < len(text):
        match = _COMMAND.match(text, at)
        if match is None:
            raise error_at(label, text, at, "expected Add(RECIPE PASS pass ...) or eval(RECIPE pass ...)")
        yield _command(match, text, label)
        at = _skip(text, match.end())


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return at if match is None else match.end()


def _command(match: re.Match[str], text: str, label: str) -> Entry:
    def fail(message: str) -> CirclekitError:
        return error_at(label, text, match.start(), message)

    words = re.sub(r"#[^\n]*", "", match["inside"]).split()
    if match["word"] not in ("Add", "eval"):
        raise fail(f"there is no command {match['word']}{near_miss(match['word'], ('Add', 'eval'))}")
    if not words:
        raise fail(f"{match['word']} names no recipe")
    recipe, *rest = words
    if match["word"] == "Add" and rest:
        if rest[0] in _QUANTIZER:
            raise fail(f"{rest[0]} is of a list for the quantizer; this one is of passes")
        if rest[0] != "PASS":
            raise fail(f"expected PASS behind {recipe}, found {rest[0]}")
        rest = rest[1:]
    line = text.count("\n", 0, match.start()) + 1
    return Entry(recipe, tuple(rest), match["word"] == "Add", f"{label}:{line}:1")


Find = Callable[[str], tuple[Path | None, str]]


def _index(folders: Iterable[str | Path]) -> Find:
    """Finds a recipe by name, or says what may have been meant."""
    known: dict[str, Path] = {}
    for folder in folders:
        if not Path(folder).is_dir():
            raise FileError(f"{folder} is no folder of recipes")
        for path in recipes_in(Path(folder)):
            known.setdefault(name_of_recipe(path), path)

    def find(name: str) -> tuple[Path | None, str]:
        return known.get(name), near_miss(name, known) if name not in known else ""

    return find


def _listed(
    entries: Iterable[Entry], find: Callable[[str], tuple[Path | None, str]], with_rules: bool
) -> Iterator[Case]:
    """ONE optimizes circle files, whatever a recipe makes."""
    for entry in entries:
        path, near = find(entry.recipe)
        place = "" if path else f"{entry.place}: no recipe is called {entry.recipe}{near}"
        yield Case(entry.recipe, path, entry.passes, "circle", None, with_rules and entry.has_rules, place)
