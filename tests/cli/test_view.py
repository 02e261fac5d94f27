# SPDX-License-Identifier: Apache-2.0
"""circlekit view with stand-ins for the viewers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import circlekit
from tests.cli.call_command import call_command

NET = "graph main(%x: f32[1,4]) -> %y { %a = Mul(%x, [1.0, 2.0, 3.0, 4.0])\n %y = Logistic(%a) }"

VIEWERS = {
    "netron": """
def start(path): calls.append(("open", path, Path(path).read_bytes()))
def wait(): calls.append(("wait",))
""",
    "model_explorer": """
class config:
    def add_model_from_path(self, path): calls.append(("open", path, Path(path).read_bytes()))
    def add_node_data(self, name, data): calls.append(("data", name, data))
def visualize_from_config(config): calls.append(("wait",))
""",
}


@pytest.fixture
def nets(tmp_path: Path) -> dict[str, str]:
    """Return the paths of one model in both formats, and of a circle model with another extension."""
    model = circlekit.parse(NET)
    paths = {name: str(tmp_path / f"net.{name}") for name in ("circle", "tflite")}
    for path in paths.values():
        circlekit.save(model, path)
    (tmp_path / "other.tflite").write_bytes(Path(paths["circle"]).read_bytes())
    return paths | {"other": str(tmp_path / "other.tflite")}


def view(
    words: list[str], viewers: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, list[Any]]:
    """Run the command where ``viewers`` are installed; return the exit code, the errors and the calls."""
    calls: list[Any] = []
    for name, text in VIEWERS.items():
        monkeypatch.delitem(sys.modules, name, raising=False)
        if name in viewers:
            (folder / f"{name}.py").write_text(
                f"from pathlib import Path\nimport tests.cli.test_view as t\ncalls = t.CALLS\n{text}"
            )
    monkeypatch.setattr(sys.modules[__name__], "CALLS", calls)
    monkeypatch.syspath_prepend(str(folder))
    done = call_command("circlekit", "view", *words)
    for name in VIEWERS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return done.returncode, done.stderr, calls


CALLS: list[Any] = []


@pytest.mark.parametrize("kind", ["circle", "tflite"])
@pytest.mark.parametrize("words", [[], ["--with", "netron"]])
def test_netron_opens_the_file_itself(
    kind: str, words: list[str], nets: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, calls = view([nets[kind], *words], [*VIEWERS], tmp_path, monkeypatch)
    assert code == 0
    assert calls == [("open", nets[kind], Path(nets[kind]).read_bytes()), ("wait",)]


def test_a_file_with_a_wrong_extension_is_copied(
    nets: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, calls = view([nets["other"]], ["netron"], tmp_path, monkeypatch)
    assert code == 0
    (_, path, content), _ = calls
    assert Path(path).name == "other.circle"
    assert content[4:8] == b"CIR0"


@pytest.mark.parametrize("kind", ["circle", "tflite", "other"])
def test_model_explorer_gets_a_tflite_file_and_data(
    kind: str, nets: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [nets[kind], *(["--with", "model-explorer"] if kind == "circle" else [])]
    installed = [*VIEWERS] if kind == "circle" else ["model_explorer"]
    code, _, calls = view(words, installed, tmp_path, monkeypatch)
    assert code == 0
    (_, path, content), macs, moved, _ = calls
    assert (path == nets[kind]) is (kind == "tflite")
    assert Path(path).suffix == ".tflite"
    assert content[4:8] == b"TFL3"
    assert [name for _, name, _ in (macs, moved)] == ["MACs", "bytes moved"]
    code, _, calls = view([nets[kind], "--against", nets["tflite"]], [*VIEWERS], tmp_path, monkeypatch)
    assert code == 0
    assert [call[0] for call in calls] == ["open", "data", "data", "data", "wait"]
    (data,) = json.loads(calls[3][2]).values()
    assert {entry["value"] for entry in data["results"].values()} == {0.0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no viewer is installed: pip install netron, or for Model Explorer: pip install ai-edge"),
        (["--with", "netron"], "netron is not installed: pip install netron\n"),
        (["--with", "model-explorer"], "model-explorer is not installed: pip install ai-edge-model-explorer"),
    ],
)
def test_a_viewer_that_is_not_installed(
    words: list[str], message: str, nets: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("circlekit.cli.view.find_spec", lambda name: None)
    code, error, calls = view([nets["circle"], *words], [], tmp_path, monkeypatch)
    assert (code, calls) == (1, [])
    assert message in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--node-data-only"], "expected --node-data-only and -o FILE together"),
        (["-o", "data.json"], "expected --node-data-only and -o FILE together"),
        (["--node-data-only", "-o", "data.json", "--measure", "error"], "expected --against MODEL"),
        (
            ["--node-data-only", "-o", "data.json", "--measure", "macs", "--against", "other.tflite"],
            "expected --measure error, got macs",
        ),
        (["--node-data-only", "-o", "data.json", "--with", "netron"], "expected no --with"),
        (["--with", "netron", "--against", "other.tflite"], "expected --with model-explorer, got netron"),
    ],
)
def test_flags_that_do_not_fit(
    words: list[str], message: str, nets: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, error, _ = view([nets["circle"], *words], [], tmp_path, monkeypatch)
    assert code == 2
    assert message in error
