# SPDX-License-Identifier: Apache-2.0
"""--explain, --explain-op and circlekit explain: what is printed, and within how many columns."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from circlekit.cli.explain import main as explain
from circlekit.cli.optimize import optimize as main
from circlekit.cli.output.explanations import MAX_OPERATORS, print_explanations
from circlekit.passes.engine.explanation import Explanation, OpExplanation
from tests.cli.call_command import call_command

FUSED = "fuse_batchnorm_with_tconv"

MODEL = """graph main(%x: f32[1,2,2,1]) -> %y, %z {
  %w = const f32[3,3,3,1] gaussian(0, 0.1)
  %1 = TransposeConv([1,4,4,3], %w, %x) {padding: VALID}
  %2 = Mul(%1, [2.0, 1.5, 0.5])
  %y = Add(%2, [-2.0, 0.1, 0.0]) {act: RELU6}
  %3 = TransposeConv([1,4,4,3], %w, %x) {padding: VALID}
  %4 = Mul(%3, [2.0, 1.5, 0.5]) {act: RELU}
  %z = Add(%4, [-2.0, 0.1, 0.0])
}
"""
"""Two batch norms after transposed convolutions; an activation keeps the second one from being fused."""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "net.ck").write_text(MODEL)
    return tmp_path / "net.ck"


def explained(net: Path, *words: str) -> list[str]:
    """Run circle2circle and return the lines that it prints."""
    done = call_command("circle2circle", str(net), str(net.with_suffix(".circle")), *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_explain_begins_with_what_fired(net: Path) -> None:
    lines = explained(net, f"--{FUSED}", "--explain", FUSED)
    assert lines[0] == f"{FUSED} rewrote 1 place; the nearest miss:"
    assert lines[1].startswith("  %z = Add(%4, ")
    assert "    %4: act is RELU, expected NONE" in lines


def test_a_file_may_be_named_all(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(net.parent)
    Path("all").touch()
    assert explained(net, "--explain", "all")


def test_explain_all_and_one_operator(net: Path) -> None:
    lines = explained(net, "--O1", "--explain", "all", "--explain-op", "%4")
    heads = [line for line in lines if not line.startswith(" ")]
    first = heads[0].split()
    assert first[1:3] == ["rewrote", "nothing;"], "the nearest miss comes first"
    assert "fuse_add_with_tconv rewrote nothing; the nearest miss:" in heads
    assert f"{FUSED} rewrote 1 place; no near miss" in heads
    assert len([line for line in heads if "other passes have nothing to say" in line]) == 1
    at = next(number for number, line in enumerate(lines) if line.startswith("%4 = TransposeConv("))
    block = lines[at : lines.index("", at)]
    (about,) = [
        number for number, line in enumerate(block) if line == "  fuse_add_with_tconv, fold_batch_norms"
    ]
    assert block[about + 1] == "    %4: act is RELU, expected NONE"
    assert max(map(len, lines[:at] + block)) <= 80


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["--explain", "fuse_batchnorm_with_tconf"],
            2,
            f"there is no pass '{FUSED[:-1]}f'; did you mean {FUSED}",
        ),
        (["--explain", "O1"], 2, "expected the name of a pass, got the pipeline O1"),
        (["--explain-op", "Sigmoid"], 1, "no operator or result Sigmoid; did you mean LOGISTIC?"),
        (["--explain-op", "Transpos"], 1, "no operator or result Transpos; did you mean "),
    ],
)
def test_misspelt_words_write_nothing(
    words: list[str], code: int, message: str, net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = net.with_suffix(".circle")
    assert main([str(net), str(target), *words]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert not target.exists()


def test_circlekit_explain_leaves_the_model_alone(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call_command("circlekit", "explain", str(net), "--after", "remove_dead", "--op", "MUL", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    first, second = json.loads(done.stdout)
    assert first["would_be_rewritten_by"][0].startswith("f")
    assert second["operator"].startswith("%4 = Mul(")
    why = {"pass": FUSED, "why": "%4: act is RELU, expected NONE", "partial": False}
    assert any(why.items() <= refusal.items() for refusal in second["refusals"])
    assert list(net.parent.iterdir()) == [net]
    assert explain([str(net), "--pass", FUSED]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"{FUSED} would rewrite 1 place if run alone; the nearest miss: %z = Add(")
    assert explain([str(net), "--pass", FUSED, "--op", "MUL"]) == 2


def test_operator_that_is_gone_is_no_error(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script that asks why an operator stays must not fail once the operator is gone."""
    for which in ("%2", "MUL"):
        assert main([str(net), str(net.with_suffix(".circle")), "--O1", "--explain-op", which]) == 0
        assert f"note: the optimized model has no operator {which} to explain" in capsys.readouterr().out
    assert explain([str(net), "--op", "FullyConnected"]) == 0
    assert capsys.readouterr().err == "there is no operator FullyConnected to explain\n"


def test_an_empty_name_selects_no_operator(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unset shell variable gives such a name; it must not ask for all passes."""
    assert explain([str(net), "--op", ""]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "error: the model has no operator or result ''\n")


@pytest.mark.parametrize("more", [-1, 0, 1, 3])
def test_many_operators_are_explained_in_part(more: int, capsys: pytest.CaptureFixture[str]) -> None:
    explanations: list[Any] = [f"operator {n}" for n in range(MAX_OPERATORS + more)]
    print_explanations([], explanations)
    blocks = capsys.readouterr().out.strip().split("\n\n")
    words = "1 more operator" if more == 1 else f"{more} more operators"
    rest = [f"{words} of this kind; --json has all"] * (more > 0)
    assert blocks == [*explanations[:MAX_OPERATORS], *rest]


QUIET, FIRED, WOULD, FAILED = (
    Explanation("quiet"),
    Explanation("fired", rewrote=1),
    Explanation("would", would_rewrite=2),
    Explanation("failed", remarks=["it fails: why"], is_prevented=True),
)
NOTHING = "nothing to say: neither a rewrite nor a near miss"


@pytest.mark.parametrize(
    ("passes", "lines"),
    [
        ([QUIET], ["quiet rewrote nothing"]),
        ([QUIET, QUIET], [f"2 other passes have {NOTHING}"]),
        ([FIRED, FIRED], ["fired rewrote 1 place; no near miss", "", "fired rewrote 1 place; no near miss"]),
        ([QUIET, FIRED], ["fired rewrote 1 place; no near miss", "", f"1 other pass has {NOTHING}"]),
        ([FAILED, QUIET], ["failed rewrote nothing", "  it fails: why", "", f"1 other pass has {NOTHING}"]),
        (
            [WOULD, QUIET],
            [
                "these passes would rewrite something if run alone: would (2 places)",
                "",
                f"1 other pass has {NOTHING}",
            ],
        ),
    ],
)
def test_passes_with_nothing_to_say_are_counted_unless_only_one_pass_is_explained(
    passes: list[Explanation], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    print_explanations(passes, [])
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize("columns", [40, 60])
def test_lines_that_are_broken_keep_their_indentation(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    print_explanations([], [OpExplanation("main", "%y = " + "word " * 20, ["name"] * 20)])
    lines = capsys.readouterr().out.splitlines()
    margins = [len(line) - len(line.lstrip()) for line in lines]
    # the operator, the passes that would rewrite it, and a sentence: each with continuation lines
    assert [margin for margin, _ in groupby(margins)] == [0, 6, 2, 8, 2, 8]
    assert max(map(len, lines)) <= columns
