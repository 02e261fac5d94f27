# SPDX-License-Identifier: Apache-2.0
"""All that is wrong with the bytes of a model file, in the order of the file; no finding ends the search.

What the loader refuses is found here too, every place of it and not the first alone; what can be loaded
is held against the operators' own rules besides.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from circlekit.errors import CirclekitError, FormatError, FormatWarning, UnsupportedError
from circlekit.io.check.check_graph import Call, GraphChecker
from circlekit.io.check.check_tensor import TensorChecker
from circlekit.io.check.findings import Finding, Findings
from circlekit.io.operator_codes import PLACEHOLDER, code_key
from circlekit.io.origin import place_of
from circlekit.io.read.flatbuffer_decoder import RUNTIME_TABLES, Decoder, identify
from circlekit.io.read.load import load_bytes, unidentified
from circlekit.io.schema import Tree, number_of
from circlekit.ir.graph import Graph, Model
from circlekit.ir.shape_inference import check_op
from circlekit.ir.value import Array
from circlekit.ir.verifier_rules import op_faults

TFLITE_VERSION = 3


def check_bytes(data: memoryview, name: str = "<bytes>") -> list[Finding]:
    """Every finding; empty for a sound model.  ``name`` is the file's, and does not appear in findings."""
    findings = Findings()
    fmt = identify(data)
    if fmt is None:
        findings.add("flatbuffer", "the file", unidentified(data))
        return findings.list
    decoder = Decoder(data, fmt, "", lambda path, what: findings.add("lost", path, what))
    try:
        tree = decoder.root()
    except FormatError as error:
        path, _, what = error.message.removeprefix(": ").partition(": ")
        findings.add("flatbuffer", path, what)
        return findings.list
    if decoder.tables > RUNTIME_TABLES:
        message = f"{decoder.tables} tables, the C++ verifier stops at {RUNTIME_TABLES}"
        findings.add("tables", "the file", message)
    FileChecker(findings, data, fmt, tree).check()
    if not findings.is_refused:
        _check_loaded(data, name, findings)
    return findings.list


class FileChecker:
    """One run over one decoded file.  ``lost``: buffers whose data is not in the file."""

    def __init__(self, findings: Findings, data: memoryview, fmt: str, tree: Tree) -> None:
        self.findings = findings
        self.add = findings.add
        self.data = data
        self.format = fmt
        self.tree = tree
        self.buffers: list[Array | None] = []
        self.lost: set[int] = set()
        self.graphs: list[Tree] = tree.get("subgraphs", [])

    def check(self) -> None:
        self._head()
        for number, tree in enumerate(self.tree.get("buffers", ())):
            self.buffers.append(self._buffer(number, tree))
        self._regions()
        external = self._external()
        keys = [code_key(code, self.format) for code in self.tree.get("operator_codes", ())]
        tensors = TensorChecker(self.findings, self.buffers, external)
        calls: list[list[Call]] = []
        for number, tree in enumerate(self.graphs):
            graph = GraphChecker(self.findings, tree, f"subgraphs[{number}]", keys, tensors, len(self.data))
            graph.check(self.format, self._is_const)
            calls.append(graph.calls)
        self._calls(calls)
        self._metadata()
        self._signatures()
        self._texts(self.tree, "")

    def _head(self) -> None:
        if not self.graphs:
            self.add("subgraphs", "subgraphs", "the model has none")
        version = self.tree.get("version", 0)
        if self.format == "tflite" and version != TFLITE_VERSION:
            self.add("version", "version", f"{version}, LiteRT takes {TFLITE_VERSION} alone")
        for number, code in enumerate(self.tree.get("operator_codes", ())):
            old, new = code.get("deprecated_builtin_code", 0), code.get("builtin_code", 0)
            path = f"operator_codes[{number}].builtin_code"
            if not isinstance(new, str) and new:
                self.add("enum", path, f"BuiltinOperator has no value {new}")
                continue
            known = number_of("BuiltinOperator", self.format, new)
            if old and known and old not in (known, PLACEHOLDER):
                self.add("code-fields", path, f"{known} ({new}), the older field is {old}")
            elif old == PLACEHOLDER and not known:
                self.add(
                    "code-fields", path, f"absent, the older field is {old}, which stands for a newer one"
                )

    # -- buffers -----------------------------------------------------------------------------------

    def _buffer(self, number: int, tree: Tree) -> Array | None:
        """The data, inline or anywhere in the file."""
        data: Array | None = tree.get("data")
        offset, size = tree.get("offset", 0), tree.get("size", 0)
        if offset > 1 and (data is None or not len(data)):
            if offset + size > len(self.data):
                message = f"{size} bytes at {offset} end beyond the file, which has {len(self.data)}"
                self.add("buffer-region", f"buffers[{number}]", message)
                self.lost.add(number)
                return None
            data = np.frombuffer(self.data, np.uint8, size, offset) if size else None
        if not number and data is not None and len(data):
            self.add("buffer-zero", "buffers[0]", f"{len(data)} bytes of data, which stand for none")
            return None
        return data

    def _regions(self) -> None:
        places = {place_of(data): len(data) for data in self.buffers if data is not None and len(data)}
        if sum(places.values()) > len(self.data):
            self.add("buffer-region", "buffers", "they overlap")

    def _is_const(self, tensor: Tree) -> bool:
        index = tensor.get("buffer", 0)
        data = self.buffers[index] if index < len(self.buffers) else None
        is_here = data is not None and len(data) > 0
        return is_here or index in self.lost or bool(tensor.get("external_buffer", 0))

    def _external(self) -> set[int]:
        """The ids of data in other files, which are never opened here."""
        groups = len(self.tree.get("external_buffer_groups", ()))
        known: set[int] = set()
        for number, item in enumerate(self.tree.get("external_buffers", ())):
            path, identifier, group = f"external_buffers[{number}]", item.get("id", 0), item.get("group", 0)
            if identifier in known:
                self.add("external-buffer", f"{path}.id", f"{identifier} is the id of another one before")
            if group >= groups:
                message = f"index {group}, there are {groups} groups"
                self.add("external-buffer", f"{path}.group", message)
            known.add(identifier)
        return known

    # -- graphs among each other -------------------------------------------------------------------

    def _calls(self, calls: list[list[Call]]) -> None:
        """Operators run graphs that there are, and none of them itself, through whatever others."""
        count = len(self.graphs)
        callees: list[list[int]] = []
        for found in calls:
            for path, index, is_read in found:
                if not 0 <= index < count:
                    rule = "graph-index" if is_read else "kept-graph-index"
                    self.add(rule, path, f"index {index}, there are {count} graphs")
            callees.append(sorted({call.graph for call in found if 0 <= call.graph < count}))
        for first, second in _rings(callees):
            message = f"it runs graph {second}, which runs it"
            self.add("recursion", f"subgraphs[{first}]", message)

    def _metadata(self) -> None:
        for number, item in enumerate(self.tree.get("metadata", ())):
            index = item.get("buffer", 0)
            if index >= len(self.buffers):
                message = f"index {index}, there are {len(self.buffers)} buffers"
                self.add("buffer-index", f"metadata[{number}].buffer", message)

    def _signatures(self) -> None:
        for number, tree in enumerate(self.tree.get("signature_defs", ())):
            path, index = f"signature_defs[{number}]", tree.get("subgraph_index", 0)
            if index >= len(self.graphs):
                message = f"index {index}, there are {len(self.graphs)} graphs"
                self.add("graph-index", f"{path}.subgraph_index", message)
                continue
            for side in ("inputs", "outputs"):
                self._ports(tree.get(side, ()), self.graphs[index], side, f"{path}.{side}")

    def _ports(self, ports: list[Tree], graph: Tree, side: str, path: str) -> None:
        count, interface = len(graph.get("tensors", ())), {int(i) for i in graph.get(side, ())}
        seen: set[str] = set()
        for number, item in enumerate(ports):
            index, name = item.get("tensor_index", 0), item.get("name", "")
            if index >= count:
                message = f"index {index}, there are {count} tensors"
                self.add("tensor-index", f"{path}[{number}].tensor_index", message)
            elif index not in interface:
                self.add("signature", f"{path}[{number}]", f"tensor {index} is none of the graph's {side}")
            if name in seen:
                self.add("signature", f"{path}[{number}].name", f"{name!r} was there before")
            seen.add(name)

    def _texts(self, tree: object, path: str) -> None:
        """Strings whose bytes are no text.  The schema's depth bounds the recursion."""
        if isinstance(tree, str):
            if not tree.isascii() and any("\udc80" <= c <= "\udcff" for c in tree):
                self.add("text", path, f"{tree[:40]!r} is not UTF-8")
        elif isinstance(tree, Mapping):
            for name, value in tree.items():
                if isinstance(value, str | dict | list):
                    self._texts(value, f"{path}.{name}" if path else name)
        elif isinstance(tree, list):
            for number, value in enumerate(tree):
                if isinstance(value, str | dict):
                    self._texts(value, f"{path}[{number}]")


def _rings(callees: list[list[int]]) -> list[tuple[int, int]]:
    """(graph, one that it calls) for each call that leads back to its graph; in time linear in the calls."""
    rings: list[tuple[int, int]] = []
    opened: set[int] = set()
    done: set[int] = set()
    for start in range(len(callees)):
        path = [] if start in done else [(start, iter(callees[start]))]
        opened.add(start)
        while path:
            graph, rest = path[-1]
            callee = next(rest, None)
            if callee is None:
                path.pop()
                done.add(graph)
            elif callee in opened and callee not in done:
                rings.append((graph, callee))
            elif callee not in opened:
                opened.add(callee)
                path.append((callee, iter(callees[callee])))
    return rings


# -- what the loaded model shows -------------------------------------------------------------------


def _check_loaded(data: memoryview, name: str, findings: Findings) -> None:
    """The operators' own rules, where the model can be loaded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            model = load_bytes(data, name)
    except CirclekitError as error:
        findings.add("load", "the file", error.message.removeprefix(f"{name}: "))
        return
    graphs = {id(graph) for graph in model.graphs}
    is_sound = not any(finding.rule == "recursion" for finding in findings.list)
    for number, graph in enumerate(model.graphs):
        _check_operators(model, graph, graphs, f"subgraphs[{number}]", findings, is_sound)


def _check_operators(
    model: Model, graph: Graph, graphs: set[int], path: str, findings: Findings, with_shapes: bool
) -> None:
    for number, op in enumerate(graph):
        where = f"{path}.operators[{number}]"
        faults = list(op_faults(op, graphs))
        for message in faults:
            findings.add("operator-type", where, message)
        if faults or not with_shapes:
            continue
        try:
            check_op(op)
        except UnsupportedError:
            continue
        except CirclekitError as error:
            findings.add("operator-shape", where, f"{op.code}: {error.message}")
