# SPDX-License-Identifier: Apache-2.0
"""one-pack and model2nnpkg: write packages (nnpackage) for ONE's runtime.

Source of the format: docs/nnpackage of ONE.  A package is a folder with the models and the JSON file
``metadata/MANIFEST``.  The manifest has the version of the format, and the names, types and configurations
of the models.  For several models, its fields ``pkg-inputs``, ``pkg-outputs`` and ``model-connect`` say how
the models are connected.  There, a port (an input or output of a model) is ``MODEL:GRAPH:INDEX``, three
numbers from 0: ``1:0:2`` is the third input or output of the main graph of the second model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from circlekit.errors import FileError, counted
from circlekit.io.file_map import map_file, translated
from circlekit.io.parse_json import parse_json
from circlekit.io.write.file_writer import made_folders, write_file
from circlekit.toolchain.driver import Driver, Invocation
from circlekit.toolchain.option import INPUT_PATH, OUTPUT_PATH, DriverError, Kind, Option, StepFailed
from circlekit.toolchain.session import Session
from circlekit.toolchain.user_paths import expanded

FORMAT_VERSION = {"major-version": "1", "minor-version": "2", "patch-version": "0"}
"""The fields of the manifest with the version of the format."""

MANIFEST = "metadata/MANIFEST"
"""The path of the manifest in a package."""


def pack(
    models: Sequence[Path], folder: Path, name: str, configs: Sequence[Path] = (), links: Sequence[Path] = ()
) -> Path:
    """Write the package FOLDER/NAME with ``models``; return its path.

    ``configs``: a configuration file for each model, or nothing.
    ``links``: for each model a JSON file that says how it is connected (see ``connections``), or nothing.
    Raise DriverError if files are wrong, missing or unreadable (nothing is written then), or if the package
    cannot be written.  The messages about missing files and extensions are ONE's.
    """
    for kind, paths in (("a config", configs), ("an io info", links)):
        if paths and len(paths) != len(models):
            sentence = f"expected {kind} file for each of {counted(len(models), 'model')}, got {len(paths)}"
            raise DriverError("error", sentence)
    contents = {path: _content(path) for path in (*models, *configs, *links)}
    for path in models:
        if not path.suffix:
            raise DriverError("error", f"modelfile does not have extension: {path}")
    # pairs (path in the package, file to copy)
    sources = [(path.name, path) for path in models] + [(f"metadata/{path.name}", path) for path in configs]
    users: dict[str, Path | str] = {MANIFEST: "the manifest"}  # by path in the package
    for place, path in sources:
        other = users.setdefault(place, path)
        if other != path:
            raise DriverError("error", f"expected different file names, got {other} and {path}")
    manifest: dict[str, Any] = {
        **FORMAT_VERSION,
        "configs": [path.name for path in configs] or [""],
        "models": [path.name for path in models],
        "model-types": [path.suffix[1:] for path in models],
        **(connections([_link(path, contents[path]) for path in links]) if links else {}),
    }
    package = folder / name
    try:
        with made_folders(package / "metadata"):
            for place, path in sources:
                write_file(package / place, [contents[path]])
            write_file(package / MANIFEST, [f"{json.dumps(manifest, indent=2)}\n".encode()])
    except FileError as error:
        raise DriverError("error", f"{package} cannot be written: {error}") from None
    return package


def _content(path: Path) -> memoryview:
    """Return the bytes of a file; raise DriverError if it is missing or cannot be read."""
    try:
        with translated(path, "read"):
            is_file = path.is_file()
        if is_file:
            return map_file(path)
    except FileError as error:
        raise DriverError("error", str(error)) from None
    raise DriverError("error", f"{path} does not exist.")


def _link(path: Path, content: memoryview) -> Mapping[str, Any]:
    """Return the JSON object in ``content``, the bytes of the file ``path``.

    Raise DriverError if it is not JSON, or lacks the fields for ``connections``.
    """
    try:
        link: Mapping[str, Any] = parse_json(bytes(content))
        for side in ("inputs", "outputs"):
            own = link["new-model-io"][side]
            lists = link["org-model-io"][side]["new-indices"], own["new-indices"], own["org-indices"]
            if not all(isinstance(indices, list) for indices in lists):
                raise TypeError
    except (ValueError, LookupError, TypeError):
        raise DriverError("error", f"io info file {path} is not json file of the expected form.") from None
    return link


def connections(links: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of the manifest that say how the parts of a divided model are connected.

    ``links``: a JSON object for each part, in which tensors are numbers.  A tensor has one number in the
    original model and one in the part.  The object has two fields, each with lists for ``inputs`` and for
    ``outputs``:

    - ``org-model-io``, the ports of the original model: ``new-indices`` are their numbers in the part, -1 for
      a tensor that the part does not have.
    - ``new-model-io``, the ports of the part: ``new-indices`` are their numbers in the part, ``org-indices``
      those in the original model.

    For example, part 0 computes tensor 1 from the model's input, tensor 0, and part 1 computes the model's
    output, tensor 2, from tensor 1.  Then ``pkg-inputs`` is ["0:0:0"], ``pkg-outputs`` is ["1:0:0"], and
    ``model-connect`` is [{"from": "0:0:0", "to": ["1:0:0"]}].
    Raise DriverError if the parts disagree on the number of ports of the original model.
    """
    found: dict[str, Any] = {}
    for side in ("inputs", "outputs"):
        # an original port that no part has stays a plain number; of several parts, the last counts
        ports: list[Any] = list(range(len(links[0]["org-model-io"][side]["new-indices"])))
        for number, link in enumerate(links):
            own = list(link["new-model-io"][side]["new-indices"])
            indices = link["org-model-io"][side]["new-indices"]
            if len(indices) != len(ports):
                message = f"expected {counted(len(ports), side[:-1])} of the whole model, got {len(indices)}"
                raise DriverError("error", f"{message} (io info file {number + 1})")
            for port, index in enumerate(indices):
                if index in own:
                    ports[port] = f"{number}:0:{own.index(index)}"
        found[f"pkg-{side}"] = ports
    edges: dict[str, list[str]] = {}
    for reader, link in enumerate(links):
        for port, wanted in enumerate(link["new-model-io"]["inputs"]["org-indices"]):
            for writer, other in enumerate(links):
                results = list(other["new-model-io"]["outputs"]["org-indices"])
                if writer != reader and wanted in results:
                    edges.setdefault(f"{writer}:0:{results.index(wanted)}", []).append(f"{reader}:0:{port}")
    found["model-connect"] = [{"from": source, "to": targets} for source, targets in edges.items()]
    return found


def _run(invocation: Invocation, session: Session) -> None:
    """Run one-pack: write a package with one model."""
    source, folder = (Path(expanded(invocation.values[key])) for key in ("input_path", "output_path"))
    session.write_log(f"model2nnpkg -o {folder} -m {source}\n")
    _pack(session, [source], folder, source.stem)


def _pack(session: Session, models: Sequence[Path], folder: Path, name: str, **more: Sequence[Path]) -> None:
    """Call ``pack`` and print the messages of model2nnpkg; raise StepFailed if ``pack`` fails."""
    try:
        session.say(f"model2nnpkg: Generating nnpkg {name} in {folder}")
        pack(models, folder, name, **more)
    except DriverError as error:
        session.report(f"error: {error.message}", "model2nnpkg")
        raise StepFailed("model2nnpkg", 1) from None


one_pack = Driver(
    "one-pack", "command line tool to package circle and metadata into nnpackage",
    lambda: [INPUT_PATH, OUTPUT_PATH], _run,
)  # fmt: skip


def _run_model2nnpkg(invocation: Invocation, session: Session) -> None:
    """Run model2nnpkg: write a package with one or more models."""
    values = invocation.values
    paths = {key: [Path(path) for path in values.get(key, [])] for key in ("models", "config", "io_info")}
    name = str(values.get("nnpkg_name") or paths["models"][0].stem)
    folder = Path(str(values["outdir"]))
    _pack(session, paths["models"], folder, name, configs=paths["config"], links=paths["io_info"])


model2nnpkg = Driver(
    "model2nnpkg",
    "Convert model files (tflite, circle or tvn) to nnpkg.",
    lambda: [
        Option("outdir", "folder to write the package into", "-o", default="."),
        Option("nnpkg-name", "name of the package (default: that of the first model)", "-p"),
        Option("config", "a configuration file for each model", "-c", Kind.REPEATED),
        Option("models", "the model files", "-m", Kind.REPEATED, required=True),
        Option("io-info", "a JSON file for each model with its connections", "-i", Kind.REPEATED),
    ],
    _run_model2nnpkg,
    log="",
    standard=(),
)
