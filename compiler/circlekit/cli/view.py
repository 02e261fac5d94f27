# SPDX-License-Identifier: Apache-2.0
"""circlekit view: open a model in an installed viewer, or write data that a viewer shows on operators."""

from __future__ import annotations

import argparse
import json
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from circlekit.api.models import check_output_path, load, refuse_overwriting, save
from circlekit.cli.arguments import MODEL_HELP, Parser, output_path
from circlekit.cli.command import Command
from circlekit.cli.output.json_text import json_text
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.io.write.file_writer import write_file
from circlekit.ir.graph import Model

DESCRIPTION = """Open a model in Netron or Model Explorer, if installed.

    circlekit view net.circle
    circlekit view net.tflite --with model-explorer
    circlekit view net.tflite --node-data-only -o macs.json

Model Explorer shows MACs and moved bytes on every operator.  With
--against, it also shows the difference of each result that the other
model has, too.
The command circlekit report needs no viewer."""

VIEWERS = {"netron": ("netron", "netron"), "model-explorer": ("model_explorer", "ai-edge-model-explorer")}
"""{name of a viewer: (its Python module, the package to install)}."""

READABLE = {"netron": ("circle", "tflite"), "model-explorer": ("tflite",)}
"""{name of a viewer: the formats that it reads}.  A model in another format is converted first."""


def _declare(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument(
        "--with", dest="viewer", choices=VIEWERS,
        help="the viewer (default: model-explorer with --against, else one that is installed)",
    )  # fmt: skip
    parser.add_argument(
        "--against", metavar="MODEL",
        help="the model to compare with; Model Explorer then also shows the errors of results that both have",
    )  # fmt: skip
    parser.add_switch(
        "--node-data-only", help="write data for Model Explorer to the file after -o; open nothing"
    )
    parser.add_argument(
        "--measure", choices=("macs", "bytes", "error"), default=None,
        help="the numbers that --node-data-only writes (default: error with --against, else macs)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=output_path, metavar="FILE", help="the file of --node-data-only"
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.node_data_only != (arguments.output is not None):
        arguments.refuse("expected --node-data-only and -o FILE together")
    if arguments.measure is not None and not arguments.node_data_only:
        arguments.refuse("--measure needs --node-data-only")
    if arguments.measure == "error" and arguments.against is None:
        arguments.refuse("the error is the difference from another model: expected --against MODEL")
    if arguments.measure in ("macs", "bytes") and arguments.against is not None:
        arguments.refuse(f"--against is for the error: expected --measure error, got {arguments.measure}")
    if arguments.viewer is not None and arguments.node_data_only:
        arguments.refuse("--node-data-only opens no viewer: expected no --with")
    if arguments.viewer == "netron" and arguments.against is not None:
        arguments.refuse("--against needs Model Explorer: expected --with model-explorer, got netron")
    if arguments.node_data_only:
        return _write_node_data(arguments)
    viewer = arguments.viewer or ("model-explorer" if arguments.against is not None else None)
    viewer = viewer or next((name for name in VIEWERS if _is_installed(name)), None)
    if viewer is None:
        netron, explorer = (package for _, package in VIEWERS.values())
        raise UnsupportedError(
            f"no viewer is installed: pip install {netron}, or for Model Explorer: pip install {explorer}"
        )
    if not _is_installed(viewer):
        raise UnsupportedError(f"{viewer} is not installed: pip install {VIEWERS[viewer][1]}")
    model = load(arguments.model)
    with tempfile.TemporaryDirectory() as folder:
        path = _readable_file(arguments.model, model, viewer, Path(folder))
        if viewer == "netron":
            _open_netron(path)
            return 0
        shown = load(path)  # node data refers to operators by their positions in this file
        data = [_node_data(shown, measure, None) for measure in ("macs", "bytes")]
        if arguments.against is not None:
            data.append(_node_data(shown, "error", arguments.against))
        _open_model_explorer(path, data)
    return 0


def _is_installed(viewer: str) -> bool:
    return find_spec(VIEWERS[viewer][0]) is not None


def _write_node_data(arguments: argparse.Namespace) -> int:
    check_output_path(arguments.output)
    for path in filter(None, (arguments.model, arguments.against)):
        refuse_overwriting(path, arguments.output)
    measure = arguments.measure or ("macs" if arguments.against is None else "error")
    data = _node_data(load(arguments.model), measure, arguments.against)
    write_file(arguments.output, [json_text(data).encode()])
    print(f"wrote {arguments.output}")
    return 0


def _node_data(model: Model, measure: str, against: str | None) -> dict[str, Any]:
    """Return node data: numbers of operators, which Model Explorer shows on them.

    For "error", an operator has a number only if its first result was compared and the error is finite.
    ``measure``: "macs", "bytes" or "error".  ``against``: the path of the model to compare with, for "error".
    Raise CirclekitError if the two models have no results to compare.
    """
    from circlekit.report.node_data import cost_data, error_data
    from circlekit.report.value_comparison import compare_values

    if measure != "error" or against is None:
        return cost_data(model, measure)
    comparison = compare_values(load(against), model)
    if not comparison.layers:
        raise CirclekitError(f"the models have no results to compare: {comparison.verdict}")
    return error_data(model, comparison.layer_errors)


def _readable_file(path: str, model: Model, viewer: str, folder: Path) -> Path:
    """Return the path to open: ``path`` if the viewer can read it, else that of a copy in ``folder``.

    The viewer chooses the format by the extension, so the extension must be that of the model's format.
    """
    suffix = Path(path).suffix.removeprefix(".")
    if suffix in READABLE[viewer] and suffix == model.format:
        return Path(path)
    format = model.format if model.format in READABLE[viewer] else READABLE[viewer][0]
    copy = folder / f"{Path(path).stem}.{format}"
    save(model, copy)
    return copy


def _open_netron(path: Path) -> None:
    import netron

    netron.start(str(path))
    netron.wait()


def _open_model_explorer(path: Path, data: list[dict[str, Any]]) -> None:
    import model_explorer

    config = model_explorer.config()
    config.add_model_from_path(str(path))
    for each in data:  # {graph: {"name": title, ...}}, with the same title for all graphs
        title = next(iter(each.values()))["name"]
        config.add_node_data(title, json.dumps(each))
    model_explorer.visualize_from_config(config)


main = Command("circlekit view", DESCRIPTION, "model", _declare, _run)
