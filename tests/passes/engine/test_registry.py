# SPDX-License-Identifier: Apache-2.0
"""Pipelines from a file, the command line and Python; passes of other packages."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import circlekit
from circlekit.cli.circle2circle import main
from circlekit.errors import ParseError, RewriteError
from circlekit.ir.text import parse_model
from circlekit.passes.engine.registry import find_pass, load_plugins
from circlekit.rewrite.base import PASSES

DOCS = (Path(__file__).parents[3] / "docs" / "guide" / "pipelines.md").read_text()

NET = """
graph main(%x: f32[2,3]) -> %z {
  %a = Neg(%x)
  %b = Neg(%a)
  %c = Sub(%b, [1.0, 2.0, 3.0])
  %z = Relu(%c)
}
"""


def example(name: str) -> str:
    """Return the code block of the guide that follows the comment ``<!-- name -->``."""
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", DOCS, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.ck"
    path.write_text(NET)
    return path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the plugin package of the guide for one test; return its folder."""
    home = tmp_path / "site"
    info = home / "my_passes-1.0.dist-info"
    info.mkdir(parents=True)
    (home / "my_passes.py").write_text(example("module"))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-passes\nVersion: 1.0\n")
    point = re.search(r'entry-points."circlekit.passes"\]\n(.*)\n', example("entry point"))
    assert point is not None
    (info / "entry_points.txt").write_text(f"[circlekit.passes]\n{point[1].replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(str(home))
    importlib.invalidate_caches()
    load_plugins.cache_clear()
    yield home
    PASSES.pop("remove_two_negs", None)
    sys.modules.pop("my_passes", None)
    load_plugins.cache_clear()


def codes(path: Path) -> list[str]:
    return [op.code for op in circlekit.load(path).main]


# -- pipelines ---------------------------------------------------------------------------------


def test_pipeline_file_of_the_document(net: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(example("pipeline"))
    out = tmp_path / "out.circle"
    assert main([str(net), str(out), "--pipeline", str(tmp_path / "mine.toml"), "--verify"]) == 0
    assert codes(out) == ["ADD", "RELU"]
    pipeline = circlekit.read_pipeline(tmp_path / "mine.toml")
    assert (pipeline.passes[0], pipeline.disable) == ("O1", ["fuse_activation_function"])
    model = circlekit.load(net)
    circlekit.optimize(model, pipeline)
    assert [op.code for op in model.main] == codes(out)


def test_passes_in_the_order_of_the_command_line(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["ReplaceSubWithAdd", "FuseActivationFunction"]
    for order, expected in (
        ("replace-sub-with-add,fuse_activation_function", names),
        ("fuse_activation_function, replace_sub_with_add", names[::-1]),
    ):
        out = tmp_path / "out.circle"
        assert main([str(net), str(out), "--passes", order, "--verbose"]) == 0
        assert re.findall(r"After (\w+)Pass ", capsys.readouterr().out) == expected
        assert "SUB" not in codes(out)
    report = circlekit.optimize(circlekit.load(net), ["fuse_activation_function", "fold_constants"])
    assert [record.name for record in report.passes] == ["fuse_activation_function", "fold_constants"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("passes = [", "mine.toml: "),
        ("pases = []", "expected the keys passes, disable and settings, got 'pases'"),
        ("passes = 'O1'", "passes: expected a list of names, got 'O1'"),
        (
            "passes = ['remove_deed']",
            "mine.toml: there is no pass or pipeline 'remove_deed'; did you mean remove_dead",
        ),
        ("disable = ['O7']", "mine.toml: there is no pass 'O7'"),
        ("settings = 3", "settings: expected a table, got 3"),
        (
            "settings = {change-outputs = 'a', change_outputs = 'b'}",
            "settings: expected each name once, got change-outputs, change_outputs",
        ),
        (
            "settings = {change_outputs = [['a']]}",
            "change_outputs: expected a value or a list of values, got [['a']]",
        ),
        ("[settings]\nzzz = 1", "mine.toml: there is no setting of a pass 'zzz'"),
    ],
)
def test_invalid_pipeline_file_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises((ParseError, RewriteError), match=re.escape(sentence)):
        circlekit.read_pipeline(tmp_path / "mine.toml")


def test_invalid_list_of_passes_is_wrong_usage(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(net), str(tmp_path / "out.circle"), "--passes", "O1,remove_deed"]) == 255
    assert "there is no pass or pipeline 'remove_deed'" in capsys.readouterr().err


# -- plugins --------------------------------------------------------------------------


def test_pass_of_a_plugin_has_a_flag(
    package: Path, net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.circle"
    assert main([str(net), str(out)]) == 0
    assert "my_passes" not in sys.modules, "expected plugins to be imported on demand"
    assert main([str(net), str(out), "--remove-two-negs", "--verify"]) == 0
    assert codes(out) == ["SUB", "RELU"]
    capsys.readouterr()
    for flag in ("--list-passes", "--help"):
        assert main([flag]) == 0
        assert "remove_two_negs " in capsys.readouterr().out


def test_pass_of_a_plugin_is_found_by_name(package: Path) -> None:
    model = parse_model(NET)
    assert circlekit.optimize(model, ["remove_two_negs"]).changes == {"remove_two_negs": 1}
    assert find_pass("remove_two_negs").__module__ == "my_passes"


def test_a_plugin_whose_pass_has_the_name_of_a_pass_of_circlekit_is_named(package: Path) -> None:
    """The command runs in a new process, in which no pass is imported yet."""
    module = package / "my_passes.py"
    module.write_text(module.read_text().replace("remove_two_negs", "remove_dead"))
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    command, environment = [sys.executable, "-m", "circlekit", "passes"], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    reason = "RewriteError: the pass remove_dead is declared twice: by circlekit.passes"
    assert done.stderr.startswith(f"error: cannot load the passes of my-passes (my_passes): {reason}")


def test_plugin_that_cannot_be_imported_is_named(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / "my_passes.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(
        RewriteError, match=r"cannot load the passes of my-passes \(my_passes\): ModuleNotFound"
    ):
        find_pass("remove_two_negs")
    assert main(["--list-passes"]) == 255
    assert capsys.readouterr().err.startswith("ERROR: cannot load the passes of my-passes")
