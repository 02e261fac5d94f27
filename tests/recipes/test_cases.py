# SPDX-License-Identifier: Apache-2.0
"""Test cases from folders of recipes, from ONE's lists (.lst) and from ours (.tsv)."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.errors import CirclekitError, FileError, ParseError, RewriteError
from circlekit.recipes.dredd_cases import cases_of
from circlekit.recipes.load import load_recipe

MODEL = "graph main(%x: f32[2]) -> %y {\n  %y = Relu(%x) : f32[2]\n}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recipes in ONE's layout of folders, the first with rules; a ``.ck`` recipe with two rule blocks."""
    for name in ("Relu_000", "Relu_001"):
        (tmp_path / "res" / name).mkdir(parents=True)
        (tmp_path / "res" / name / "test.recipe").write_text(MODEL)
    (tmp_path / "res" / "Relu_000" / "test.rule").write_text("RULE N $(op_count RELU) '=' 1\n")
    (tmp_path / "own.ck").write_text(MODEL + "rules { passes(O1) total(1) } rules { format(tflite) }")
    return tmp_path


def test_cases_of_a_folder(folder: Path) -> None:
    cases = cases_of(folder, passes=["remove_dead"])
    assert [c.name for c in cases] == ["own-1", "own-2", "Relu_000", "Relu_001"]
    blocks = [case.rules() for case in cases]
    assert [b.passes for b in blocks] == [("O1",), ("remove_dead",), ("remove_dead",), ("remove_dead",)]
    assert [len(b.rules) for b in blocks] == [1, 0, 0, 0]  # only cases of lists read test.rule
    assert [b.format for b in blocks] == [None, "tflite", None, None]


def test_cases_of_a_list_of_one(folder: Path) -> None:
    text = """
    ## SUPPORTED PASS
    Add(Relu_000 PASS remove_dead fold_constants)  # with rules
    Add(Relu_001)
    Add(Relu_001 PASS)
    # Add(Relu_999 PASS x)
    eval(own remove_dead)
    Add(Relu_000 PASS
          remove_dead # one
          fold_constants
    )
    """
    (folder / "test.lst").write_text(text)
    cases = cases_of(folder / "test.lst")
    assert [(c.name, c.passes, c.format) for c in cases] == [
        ("Relu_000", ("remove_dead", "fold_constants"), "circle"),
        ("Relu_001", (), "circle"),
        ("Relu_001", (), "circle"),
        ("own", ("remove_dead",), "circle"),
        ("Relu_000", ("remove_dead", "fold_constants"), "circle"),
    ]
    assert [len(c.rules().rules) for c in cases] == [1, 0, 0, 0, 1]
    assert [len(c.rules().rules) for c in cases_of(folder / "test.lst", with_rules=False)] == [0] * 5


@pytest.mark.parametrize(("name", "text"), [("a.lst", "# Add(a PASS x)\n"), ("a.tsv", "recipe\tpasses\n")])
def test_a_list_without_cases(name: str, text: str, folder: Path) -> None:
    (folder / name).write_text(text)
    with pytest.raises(FileError, match=rf"{name}: expected a list with one test or more, got none"):
        cases_of(folder / name)


def test_texts_may_begin_with_the_mark_of_utf_8(folder: Path) -> None:
    (folder / "a.tsv").write_text("recipe\tpasses\nRelu_000\t\nown\t\n", encoding="utf-8-sig")
    rules = folder / "res" / "Relu_000" / "test.rule"
    rules.write_text(rules.read_text(), encoding="utf-8-sig")
    (folder / "own.ck").write_text(MODEL, encoding="utf-8-sig")
    cases = cases_of(folder / "a.tsv")
    assert [(case.name, len(case.rules().rules)) for case in cases] == [("Relu_000", 1), ("own", 0)]
    assert load_recipe(folder / "own.ck").main.ops[0].code == "RELU"


def test_cases_of_our_list(folder: Path) -> None:
    list_ = folder / "lists" / "some.tsv"
    list_.parent.mkdir()
    list_.write_text("recipe\tpasses\nRelu_000\tremove_dead, fold_constants,\n\n# no\nRelu_001\t\nRelu_001\n")
    cases = cases_of(list_, [folder / "res"])
    assert [c.passes for c in cases] == [("remove_dead", "fold_constants"), (), ()]
    assert all(c.recipe is not None for c in cases)


@pytest.mark.parametrize(
    ("name", "line", "rules"),
    [
        ("test.lst", "Add(%s PASS %s)\n", 1),
        ("test.lst", "eval(%s %s)\n", 0),
        ("test.tsv", "recipe\tpasses\n%s\t%s\n", 1),
    ],
)
def test_lists_check_the_rules_of_texts_unless_eval_leaves_them_out(
    tmp_path: Path, name: str, line: str, rules: int
) -> None:
    (tmp_path / "any.ck").write_text(MODEL + "rules { total(5) }")
    (tmp_path / name).write_text(line % ("any", "remove_dead"))
    (case,) = cases_of(tmp_path / name)
    assert (case.name, case.rules().passes, len(case.rules().rules)) == ("any", ("remove_dead",), rules)
    assert case.rules().format == "circle"


def test_a_list_that_names_passes_must_name_those_that_rules_are_for(folder: Path) -> None:
    (folder / "test.lst").write_text("Add(own PASS remove_dead) Add(own PASS O1) Add(own)")
    cases = cases_of(folder / "test.lst")
    assert [case.name for case in cases] == ["own-1", "own-2"] * 3
    message = "expected the passes that the rules in .*own.ck are for, O1, got remove_dead; .* eval.own "
    with pytest.raises(RewriteError, match=f"test.lst:1:1: {message}"):
        cases[0].rules()
    assert [case.rules().passes for case in cases[1:]] == [("remove_dead",), ("O1",), ("O1",), ("O1",), ()]


def test_a_list_may_name_the_passes_of_rules_by_their_flags(tmp_path: Path) -> None:
    (tmp_path / "any.ck").write_text(MODEL + "rules { passes(remove_dead) }")
    (tmp_path / "test.lst").write_text("Add(any PASS remove-dead)")
    (case,) = cases_of(tmp_path / "test.lst")
    assert case.rules().passes == ("remove_dead",)


def test_missing_recipe_is_reported_with_its_line(folder: Path) -> None:
    (folder / "some.tsv").write_text("recipe\tpasses\nRelu_00\t\n")
    (case,) = cases_of(folder / "some.tsv")
    with pytest.raises(FileError, match=r"some.tsv:2:1: no recipe is named Relu_00; did you mean Relu_00"):
        case.rules()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.lst", "Add(Relu_000 PAS x)", "a.lst:1:1: expected PASS after Relu_000, got PAS"),
        ("a.lst", "\nAd(Relu_000)", "a.lst:2:1: no command is named Ad; did you mean Add?"),
        ("a.lst", "Add()", "a.lst:1:1: expected a recipe in Add"),
        ("a.lst", "Add(R DTYPE uint8)", "a.lst:1:1: expected PASS after R, got DTYPE"),
        ("a.lst", "Relu_000", "expected Add"),
        ("a.lst", "Add(R PASS x", "expected Add"),
        ("a.tsv", "Relu_000\tx", "a.tsv:1:1: expected recipe<tab>passes in the first line"),
        ("a.tsv", "recipe\tpasses\nR\tx\ty", "a.tsv:2:1: expected recipe<tab>passes"),
    ],
)
def test_invalid_lists_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ParseError) as raised:
        cases_of(tmp_path / name)
    assert message in raised.value.message


def test_folders_without_recipes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="expected a recipe"):
        cases_of(tmp_path)
    with pytest.raises(CirclekitError, match="No such file"):
        cases_of(tmp_path / "absent.lst")
    (tmp_path / "a.tsv").write_text("recipe\tpasses\n")
    with pytest.raises(FileError, match="expected a folder of recipes"):
        cases_of(tmp_path / "a.tsv", [tmp_path / "absent"])


def test_recipe_with_invalid_rules_fails(tmp_path: Path) -> None:
    (tmp_path / "bad.ck").write_text(MODEL + "rules { nothing() }")
    (case,) = cases_of(tmp_path)
    assert case.name == "bad"
    with pytest.raises(ParseError, match="no rule is named nothing"):
        case.rules()


def test_a_missing_recipe_of_a_list_of_one_is_reported_with_its_line(folder: Path) -> None:
    (folder / "test.lst").write_text("# a comment\nAdd(Relu_001)\n\n  Add(Relu_00 PASS x)\n")
    good, bad = cases_of(folder / "test.lst")
    good.rules()
    with pytest.raises(FileError, match=r"test.lst:4:1: no recipe is named Relu_00"):
        bad.rules()


@pytest.mark.parametrize("after", ["}", " }", "# why\n}"])
def test_rules_are_quoted_as_they_are_written(after: str, tmp_path: Path) -> None:
    (tmp_path / "net.ck").write_text(f"{MODEL}rules {{ order(Relu,\n  Neg){after}")
    (case,) = cases_of(tmp_path / "net.ck")
    assert [rule.text for rule in case.rules().rules] == ["order(Relu, Neg)"]
