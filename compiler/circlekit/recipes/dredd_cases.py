# SPDX-License-Identifier: Apache-2.0
"""Find the cases of dredd tests.  A case says which recipe is run with which passes.

Cases come from one of these:

- ``*.lst`` (``test.lst``): ONE's list, with cases such as ``Add(RECIPE PASS pass1 pass2)`` or
  ``eval(RECIPE pass1 pass2)``, and ``#`` comments; PASS is a keyword; ``eval`` ignores rules;
- ``*.tsv``: the first line is ``recipe<tab>passes``; each further line is a case, such as
  ``RECIPE<tab>pass1,pass2``; empty lines and lines that begin with ``#`` are skipped;
- a folder: the cases of each ``test.recipe`` and ``*.ck`` in it and in its subfolders, sorted by path;
- a recipe: one case, or one case for each block of rules in it.

In a list, RECIPE is the name of the recipe's folder (``RECIPE/test.recipe``) or file (``RECIPE.ck``).  If a
``.ck`` recipe has blocks of rules, a line makes a case for each block, except with ``eval``.
ONE's rules (``test.rule`` beside ``test.recipe``) are checked only for the cases of lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from circlekit.errors import CirclekitError, FileError, RewriteError, did_you_mean
from circlekit.io.file_map import map_file, translated
from circlekit.ir.text.lexer import error_at
from circlekit.passes.engine.registry import unknown_pass
from circlekit.recipes.load import decoded
from circlekit.recipes.rules.one_rules import parse_one_rules
from circlekit.recipes.rules.rule import Rule, RuleBlock
from circlekit.recipes.rules.text_rules import parse_text_rules

ONE_RECIPE, ONE_RULES = "test.recipe", "test.rule"
"""The names of the files with ONE's recipes and with their rules."""

CK_SUFFIX = ".ck"
"""The extension of circlekit's recipes."""


@dataclass(frozen=True)
class Case:
    """One test.

    ``name``: the name of the test in reports.
    ``recipe``: the path of the recipe; None if a list names a recipe that does not exist.
    ``passes``: the names of the passes.  If the block of rules names passes, the passes of the block run
    instead; a list must then name the same passes, or none.
    ``format``: the format of the model after the passes, unless the block of rules states one; None: that of
    the recipe.
    ``block``: the index of the block of rules in the recipe; None: the recipe has no blocks, or they are
    ignored.
    ``with_rule_file``: whether to check the rules in the file ``test.rule`` beside the recipe, if it exists.
    ``place``: the position of the case in its list, as FILE:LINE:1; "" without a list.  If ``recipe`` is
    None, ``place`` is the whole error message: the position, then the reason.
    """

    name: str
    recipe: Path | None
    passes: tuple[str, ...] = ()
    format: str | None = None
    block: int | None = None
    with_rule_file: bool = False
    place: str = ""

    def rules(self) -> RuleBlock:
        """Return the passes to run and the rules to check after them.

        Raise ParseError for a wrong rule or an unknown pass in the rules, FileError if ``recipe`` is None,
        and the errors of ``read_text``.  Raise RewriteError for an unknown pass in ``passes``, or if the list
        and the rules name different passes.
        """
        if self.recipe is None:
            raise FileError(self.place)
        for name in self.passes:
            unknown = unknown_pass(name)
            if unknown:
                raise RewriteError(f"{self.place or self.recipe}: {unknown}")
        if self.block is not None:
            block = parse_text_rules(read_text(self.recipe), str(self.recipe))[self.block]
            names = tuple(name.replace("-", "_") for name in self.passes)  # a list may have flags
            if self.place and names and block.passes not in ((), names):
                raise RewriteError(
                    f"{self.place}: expected the passes that the rules in {self.recipe} are for,"
                    f" {' '.join(block.passes)}, got {' '.join(self.passes)};"
                    f" in a .lst list, eval({name_of_recipe(self.recipe)} ...) ignores rules"
                )
            return replace(block, passes=block.passes or self.passes, format=block.format or self.format)
        path = self.recipe.with_name(ONE_RULES)
        rules: list[Rule] = []
        if self.with_rule_file and path.exists():
            rules += parse_one_rules(read_text(path), str(path))
        return RuleBlock(self.passes, self.format, rules=rules)


def cases_of(
    path: str | Path, folders: Sequence[str | Path] = (), passes: Sequence[str] = (), with_rules: bool = True
) -> list[Case]:
    """Return the cases of a list, a folder or a recipe.

    ``folders``: folders in which to look for the recipes of a list; by default the folder of the list.
    ``passes``: the passes for recipes that name no passes; without effect on lists.
    ``with_rules``: whether the cases of a list check the rules of their recipes.

    Raise FileError if a list cannot be read or has no case, a folder has no recipe, or one of ``folders``
    does not exist.  Raise FormatError for a list that is not UTF-8, and ParseError for an invalid list.  A
    recipe that is missing, or whose rules are wrong, gives one case, which fails when it is run.
    """
    with translated(path, "read"):  # turns an OSError into a FileError
        path = Path(path)
        is_folder = path.is_dir()
    if is_folder:
        cases_in_folder = [case for recipe in recipes_in(path) for case in _cases_of_recipe(recipe, passes)]
        if not cases_in_folder:
            raise FileError(f"{path}: expected a recipe ({ONE_RECIPE} or *{CK_SUFFIX}), got none")
        return cases_in_folder
    if path.suffix not in (".lst", ".tsv"):
        return _cases_of_recipe(path, passes)
    text = read_text(path)
    listed = _tsv(text, str(path)) if path.suffix == ".tsv" else _lst(text, str(path))
    cases = list(_with_recipes(listed, folders or [path.parent], with_rules))
    if not cases:
        raise FileError(f"{path}: expected a list with one test or more, got none")
    return cases


def recipes_in(folder: Path) -> list[Path]:
    """Return the paths of all recipes in ``folder`` and its subfolders, sorted."""
    return sorted([*folder.rglob(ONE_RECIPE), *folder.rglob("*" + CK_SUFFIX)])


def name_of_recipe(path: Path) -> str:
    """Return the name of a recipe in lists and reports: the name of its folder (``test.recipe``) or file."""
    return path.absolute().parent.name if path.name == ONE_RECIPE else path.stem


def read_text(path: Path) -> str:
    """Return the content of a text file; raise the errors of ``map_file`` and ``decoded``."""
    return decoded(map_file(path), str(path))


def _cases_of_recipe(path: Path, passes: Sequence[str]) -> list[Case]:
    """Return the cases of one recipe: one, or one for each of its blocks of rules."""
    name = name_of_recipe(path)
    if path.name == ONE_RECIPE:
        return [Case(name, path, tuple(passes))]
    try:
        blocks = parse_text_rules(read_text(path), str(path))
    except CirclekitError:  # ``Case.rules`` parses the recipe again, so only this case fails when it is run
        return [Case(name, path, tuple(passes), block=0)]
    if not blocks:
        return [Case(name, path, tuple(passes))]
    names = [name if len(blocks) == 1 else f"{name}-{number}" for number in range(1, len(blocks) + 1)]
    return [Case(n, path, tuple(passes), block=i) for i, n in enumerate(names)]


# -- lists; as in ONE, the models after the passes are circle, whatever the format of the recipes -


def _tsv(text: str, label: str) -> Iterator[Case]:
    """Yield the cases of a ``.tsv`` list; passes may also be separated by spaces.

    ``label``: the name of the list, for errors.  Raise ParseError for an invalid line.
    """
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        fields = [field.strip() for field in line.split("\t")]
        if number == 1:
            if fields[:2] != ["recipe", "passes"]:
                raise error_at(label, text, 0, "expected recipe<tab>passes in the first line")
        elif line.strip() and not line.startswith("#"):
            if len(fields) > 2 or not fields[0]:
                raise error_at(label, text, at, "expected recipe<tab>passes")
            passes = fields[1].replace(",", " ").split() if len(fields) > 1 else []
            place = f"{label}:{number}:1"
            yield Case(fields[0], None, tuple(passes), "circle", with_rule_file=True, place=place)
        at += len(line) + 1


_COMMAND = re.compile(r"\s*(?:(?P<word>\w+)\s*\((?P<inside>[^()]*)\)|(?P<other>\S))")
"""A command of a ``.lst`` list, ``word(inside)``, or a character that begins no command (``other``)."""


def _lst(text: str, label: str) -> Iterator[Case]:
    """Yield the cases of a list of ONE, named ``label`` in errors; raise ParseError if it is invalid."""
    plain = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), text)  # same positions as in ``text``
    for match in _COMMAND.finditer(plain):
        if match["other"]:
            expected = "expected Add(RECIPE PASS pass ...) or eval(RECIPE pass ...)"
            raise error_at(label, text, match.start("other"), expected)
        at, word, (recipe, *rest) = match.start("word"), match["word"], match["inside"].split() or [""]
        if word not in ("Add", "eval"):
            raise error_at(
                label, text, at, f"no command is named {word}{did_you_mean(word, ('Add', 'eval'))}"
            )
        if not recipe:
            raise error_at(label, text, at, f"expected a recipe in {word}")
        if word == "Add" and rest:
            if rest[0] != "PASS":
                raise error_at(label, text, at, f"expected PASS after {recipe}, got {rest[0]}")
            del rest[0]
        line = text.count("\n", 0, at) + 1
        place = f"{label}:{line}:1"
        yield Case(recipe, None, tuple(rest), "circle", with_rule_file=word == "Add", place=place)


def _with_recipes(cases: Iterable[Case], folders: Iterable[str | Path], with_rules: bool) -> Iterator[Case]:
    """Yield the cases of a list with the paths of their recipes, which are found by name in ``folders``.

    A recipe with blocks of rules gives a case for each block, unless the case ignores rules.  If there is no
    such recipe, the path stays None, and an error is appended to ``place``.  Raise FileError if one of
    ``folders`` does not exist.
    """
    paths: dict[str, Path] = {}
    for folder in folders:
        if not Path(folder).is_dir():
            raise FileError(f"{folder}: expected a folder of recipes")
        for path in recipes_in(Path(folder)):
            paths.setdefault(name_of_recipe(path), path)
    for case in cases:
        recipe = paths.get(case.name)
        error = "" if recipe else f": no recipe is named {case.name}{did_you_mean(case.name, paths)}"
        found = replace(
            case,
            recipe=recipe,
            with_rule_file=with_rules and case.with_rule_file,
            place=case.place + error,
        )
        if recipe is None or not found.with_rule_file:
            yield found
            continue
        for one in _cases_of_recipe(recipe, case.passes):
            yield replace(found, name=one.name, block=one.block)
