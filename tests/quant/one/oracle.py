# SPDX-License-Identifier: Apache-2.0
"""ONE's recorded quantizations: the rows of quant.tsv, their models, and a comparison down to the bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from circlekit.api.models import load
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Value, same_array
from circlekit.quant.one.settings import (
    CHANNEL,
    LayerSetting,
    Settings,
    layer_setting,
    port_types,
    read_layers,
)
from tests.conftest import SHARED

FOLDER = SHARED / "peer" / "one"


class Row(NamedTuple):
    """One row of the table: the recipe's name, what was run on it, the words of the options."""

    name: str
    kind: str
    words: list[str]

    def __str__(self) -> str:
        return self.name

    def option(self, key: str) -> str | None:
        return self.words[self.words.index(key) + 1] if key in self.words else None

    def model(self, suffix: str) -> Model:
        return load(FOLDER / "quant" / f"{self.name}.{suffix}.circle")

    def file(self, name: str) -> Path | None:
        """Return the path of a file in the recipe's folder; None if there is no such file."""
        return next(FOLDER.glob(f"*/{self.name}/{name}"), None)

    def settings(self) -> Settings:
        dtype, granularity = self.option("DTYPE"), self.option("GRANULARITY")
        assert dtype is not None
        assert granularity is not None
        default = layer_setting(dtype, granularity)
        ports = {side: self.option(f"{side.upper()}_DTYPE") for side in ("input", "output")}
        types = {side: None if word is None else port_types(word, side) for side, word in ports.items()}
        layers = self.layers(default) if "USE_QCONFIG" in self.words else [{}]
        return Settings(default, layers, types["input"], types["output"])

    def layers(self, default: LayerSetting) -> list[dict[str, LayerSetting]]:
        """Return the layers of the recipe's configuration file; if it is absent, those of ONE's result."""
        path = self.file("test.qconf.json")
        if path is not None:
            return read_layers(str(path))
        computed = (op for op in self.model("q").main if op.code not in ("QUANTIZE", "DEQUANTIZE"))
        others = (v for op in computed for v in op.results if v.dtype is not default.dtype)
        return [{v.name: LayerSetting(v.dtype, CHANNEL) for v in others}]


def rows(*kinds: str) -> list[Row]:
    """Return the rows of these kinds; none if the shared folder is absent."""
    table = FOLDER / "quant.tsv"
    if not table.is_file():
        return []
    split = (line.split("\t") for line in table.read_text().splitlines()[1:])
    return [Row(name, kind, args.split()) for name, kind, args, *_ in split if kind in kinds]


def differences(model: Model, expected: Model) -> Iterator[str]:
    """Yield the differences of two main graphs: operators, names, types, quantization and data."""
    graph, other = model.main, expected.main
    for side in ("inputs", "outputs"):
        names = [[v.name for v in getattr(g, side)] for g in (graph, other)]
        if names[0] != names[1]:
            yield f"{side}: {names[0]} and {names[1]}"
    if operators(graph) != operators(other):
        yield f"operators: {operators(graph)} and {operators(other)}"
    found, wanted = values(graph), values(other)
    if found.keys() != wanted.keys():
        yield f"names: {sorted(found.keys() ^ wanted.keys())} are in one of them"
    for name in found.keys() & wanted.keys():
        a, b = found[name], wanted[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            yield f"{a} and {b}"
        if a.quantization != b.quantization:
            yield f"{name}: {a.quantization} and {b.quantization}"
        if not same_array(a.data, b.data):
            yield f"{name}: {a.data} and {b.data}"


def operators(graph: Graph) -> list[object]:
    """Return code, operands, results and attributes of every operator, in order."""
    return [
        (
            op.code,
            [None if v is None else v.name for v in op.inputs],
            [v.name for v in op.results],
            op.attribute_items(),
        )
        for op in graph
    ]


def values(graph: Graph) -> dict[str, Value]:
    """Return the inputs, operands, results and outputs by name."""
    used = [v for op in graph for v in (*op.inputs, *op.results) if v is not None]
    return {v.name: v for v in (*graph.inputs, *used, *graph.outputs)}
