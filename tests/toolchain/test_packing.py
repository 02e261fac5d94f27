# SPDX-License-Identifier: Apache-2.0
"""Packages of models: their files, their manifest, and what cannot be packed."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from circlekit.io.write import file_writer
from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.drivers.packing import FORMAT_VERSION, connections


def call(words: str) -> int:
    return all_drivers()["model2nnpkg"](words.split())


def manifest(package: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path(package, "metadata/MANIFEST").read_text())
    return document


@pytest.fixture(autouse=True)
def _files(work: Path) -> None:
    for name in ("a.circle", "b.tflite", "c.tvn", "a.cfg", "b.cfg", "plain"):
        Path(name).write_text(name)


@pytest.mark.parametrize(
    ("words", "package", "models", "configs"),
    [
        ("-m a.circle", "a", ["a.circle"], []),
        ("-m a.circle b.tflite -m c.tvn -o out", "out/a", ["a.circle", "b.tflite", "c.tvn"], []),
        ("-m a.circle -c a.cfg -p net", "net", ["a.circle"], ["a.cfg"]),
        ("-m b.tflite a.circle -c b.cfg a.cfg -o x/y", "x/y/b", ["b.tflite", "a.circle"], ["b.cfg", "a.cfg"]),
    ],
)
def test_a_package_has_models_and_configurations(
    words: str, package: str, models: list[str], configs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # the files of an old package are replaced
        assert call(words) == 0
    name, folder = Path(package).name, Path(package).parent
    assert f"model2nnpkg: Generating nnpkg {name} in {folder}\n" in capsys.readouterr().out
    files = {str(path.relative_to(package)): path.read_text() for path in Path(package).rglob("*.*")}
    assert files == {**{name: name for name in models}, **{f"metadata/{name}": name for name in configs}}
    assert manifest(package) == {
        **FORMAT_VERSION,
        "configs": configs or [""],
        "models": models,
        "model-types": [name.split(".")[1] for name in models],
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-m a.circle b.tflite -c a.cfg", "expected a config file for each of 2 models, got 1"),
        ("-m a.circle -c a.cfg b.cfg", "expected a config file for each of 1 model, got 2"),
        ("-m a.circle b.tflite -i one.json", "expected an io info file for each of 2 models, got 1"),
        ("-m a.circle none.circle", "none.circle does not exist."),
        ("-m a.circle -c none.cfg", "none.cfg does not exist."),
        ("-m a.circle -i none.json", "none.json does not exist."),
        ("-m a.circle plain", "modelfile does not have extension: plain"),
        ("-m a.circle x/a.circle", "expected different file names, got a.circle and x/a.circle"),
        ("-m a.circle b.tflite -c a.cfg x/a.cfg", "expected different file names, got a.cfg and x/a.cfg"),
        ("-m a.circle -c x/MANIFEST", "expected different file names, got the manifest and x/MANIFEST"),
        ("-m a.circle -i a.cfg", "io info file a.cfg is not json file of the expected form."),
        ("-m a.circle -i link.json", "io info file link.json is not json file of the expected form."),
        ("-m a.circle -i number.json", "io info file number.json is not json file of the expected form."),
        ("-m a.circle b.tflite -i one.json two.json", "expected 1 input of the whole model, got 2"),
        ("-m a.circle -o plain", "plain/a cannot be written: "),
    ],
)
def test_wrong_parts_are_not_packed(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = (link([0] * count, [1], ([0], [1]), ([0], [1])) for count in (1, 2))
    number = {**one, "org-model-io": {side: {"new-indices": 1} for side in ("inputs", "outputs")}}
    links = {"link": {"org-model-io": {"inputs": {}}}, "number": number, "one": one, "two": two}
    for name, content in links.items():
        Path(f"{name}.json").write_text(json.dumps(content))
    Path("x").mkdir()
    for name in ("a.circle", "a.cfg", "MANIFEST"):
        Path("x", name).write_text("another")
    assert call(words) == 1
    assert capsys.readouterr().err.startswith(f"model2nnpkg: error: {message}")
    assert not Path("a").exists()


def test_a_model_may_be_named_like_the_manifest() -> None:
    """Models are not in the folder of the manifest."""
    Path("MANIFEST.circle").write_text("model")
    Path("MANIFEST.cfg").write_text("config")
    assert call("-m MANIFEST.circle -c MANIFEST.cfg -p net") == 0
    assert manifest("net")["configs"] == ["MANIFEST.cfg"]


@pytest.mark.parametrize("file", ["b.tflite", "b.cfg", "link.json"])
def test_nothing_is_written_if_a_file_cannot_be_read(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("link.json").write_text(json.dumps(link([0], [1], ([0], [1]), ([0], [1]))))
    real_open = Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        """Stand for the system's refusal, which a test that runs as root would not see."""
        if path.name == file:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_open(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    assert call("-m a.circle b.tflite -c a.cfg b.cfg -i link.json link.json -o out") == 1
    message = f"model2nnpkg: error: {file}: cannot be read: Permission denied\n"
    assert capsys.readouterr().err == message
    assert not Path("out").exists()


def test_a_full_disk_leaves_no_folders(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file_writer, "write_pieces", full)
    assert call("-m a.circle -o out") == 1
    message = "out/a cannot be written: out/a/a.circle: cannot be written: No space left on device"
    assert capsys.readouterr().err == f"model2nnpkg: error: {message}\n"
    assert not Path("out").exists()


def link(
    inputs: list[int], outputs: list[int], own: tuple[list[int], list[int]], org: tuple[list[int], list[int]]
) -> dict[str, Any]:
    """Return the JSON object with the connections of a part.

    A tensor has a number in the part, and another number in the model.
    ``inputs``, ``outputs``: for each input and output of the model its number in the part, -1 if absent.
    ``own``: (inputs, outputs) of the part, by their numbers in the part.  ``org``: by those in the model.
    """
    return {
        "org-model-io": {"inputs": {"new-indices": inputs}, "outputs": {"new-indices": outputs}},
        "new-model-io": {
            side: {"new-indices": new, "org-indices": old}
            for side, new, old in zip(("inputs", "outputs"), own, org, strict=True)
        },
    }


def test_a_single_part_has_all_ports() -> None:
    only = link([4, 2], [9], ([2, 4], [9]), ([0, 1], [5]))
    assert connections([only]) == {
        "pkg-inputs": ["0:0:1", "0:0:0"], "pkg-outputs": ["0:0:0"], "model-connect": [],
    }  # fmt: skip


def test_parts_are_connected_where_one_writes_what_another_reads() -> None:
    """Numbers in the model: inputs 0 and 1, outputs 8 and 9; 5 and 6 are between the parts.

    The second part reads tensor 6 as its input 1; the first part writes it as its output 1.
    """
    first = link([0, -1], [-1, -1], ([0], [2, 3]), ([0], [5, 6]))
    second = link([-1, 1], [-1, 3], ([1, 2], [3]), ([1, 6], [9]))
    third = link([-1, -1], [4, -1], ([0, 1], [4]), ([6, 5], [8]))
    assert connections([first, second, third]) == {
        "pkg-inputs": ["0:0:0", "1:0:0"],
        "pkg-outputs": ["2:0:0", "1:0:0"],
        "model-connect": [
            {"from": "0:0:1", "to": ["1:0:1", "2:0:0"]},
            {"from": "0:0:0", "to": ["2:0:1"]},
        ],
    }


def test_a_part_that_reads_what_it_writes_is_not_connected_with_itself() -> None:
    looped = link([0], [1], ([0], [1]), ([0], [0]))
    assert connections([looped])["model-connect"] == []
