# SPDX-License-Identifier: Apache-2.0
"""Check the bytes of a model file against all rules of ``findings``, in the order of the file.

The check continues after a finding, unless the flatbuffer itself is damaged.  It finds everything that load
refuses.  Files that can be loaded are also checked with the shape and dtype rules of the operators.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from circlekit.errors import CirclekitError, FormatError, FormatWarning, UnsupportedError
from circlekit.io.check.check_graph import Call, GraphChecker
from circlekit.io.check.check_tensor import TensorChecker
from circlekit.io.check.findings import Finding, Findings
from circlekit.io.operator_fields import PLACEHOLDER, code_key
from circlekit.io.origin import place_of
from circlekit.io.read.flatbuffer_decoder import RUNTIME_TABLES, Decoder, identify
from circlekit.io.read.load import load_bytes, unidentified
from circlekit.io.schema import Tree, number_of
from circlekit.ir.shape_inference import check_op
from circlekit.ir.value import Array
from circlekit.ir.verifier import op_faults

TFLITE_VERSION = 3


def check_bytes(data: memoryview, name: str = "<bytes>") -> list[Finding]:
    """Return all findings; empty for a valid model.  ``name``: the file's name, for load only."""
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
        message = f"expected at most {RUNTIME_TABLES} tables for the C++ verifier, got {decoder.tables}"
        findings.add("tables", "the file", message)
    FileChecker(findings, data, fmt, tree).check()
    if not findings.is_refused:
        _check_loaded(data, name, findings)
    return findings.list


class FileChecker:
    """Checks one decoded file.  ``lost``: indices of buffers whose external data is not in the file."""

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
        places = {place_of(data): len(data) for data in self.buffers if data is not None and len(data)}
        if sum(places.values()) > len(self.data):
            self.add("buffer-region", "buffers", "expected buffers that do not overlap")
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
            self.add("subgraphs", "subgraphs", "expected one graph or more, got none")
        version = self.tree.get("version", 0)
        if self.format == "tflite" and version != TFLITE_VERSION:
            self.add("version", "version", f"expected {TFLITE_VERSION}, as LiteRT requires, got {version}")
        for number, code in enumerate(self.tree.get("operator_codes", ())):
            old, new = code.get("deprecated_builtin_code", 0), code.get("builtin_code", 0)
            path = f"operator_codes[{number}].builtin_code"
            if not isinstance(new, str) and new:
                self.add("enum", path, f"BuiltinOperator has no value {new}")
                continue
            known = number_of("BuiltinOperator", self.format, new)
            if old and known and old not in (known, PLACEHOLDER):
                self.add("code-fields", path, f"{known} ({new}), but deprecated_builtin_code is {old}")
            elif old == PLACEHOLDER and not known:
                message = f"expected an operator, because deprecated_builtin_code is {old}, got none"
                self.add("code-fields", path, message)

    # -- buffers -----------------------------------------------------------------------------------

    def _buffer(self, number: int, tree: Tree) -> Array | None:
        """Return the data of a buffer, stored in or behind the flatbuffer; None if it has none."""
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
            self.add("buffer-zero", "buffers[0]", f"expected no data in buffer 0, got {len(data)} bytes")
            return None
        return data

    def _is_const(self, tensor: Tree) -> bool:
        index = tensor.get("buffer", 0)
        data = self.buffers[index] if index < len(self.buffers) else None
        is_here = data is not None and len(data) > 0
        return is_here or index in self.lost or bool(tensor.get("external_buffer", 0))

    def _external(self) -> set[int]:
        """Check the list of data in other files, which are not opened, and return its ids."""
        groups = len(self.tree.get("external_buffer_groups", ()))
        known: set[int] = set()
        for number, item in enumerate(self.tree.get("external_buffers", ())):
            path, identifier, group = f"external_buffers[{number}]", item.get("id", 0), item.get("group", 0)
            if identifier in known:
                self.add("external-buffer", f"{path}.id", f"{identifier} is the id of an earlier one")
            if group >= groups:
                message = f"index {group}, there are {groups} groups"
                self.add("external-buffer", f"{path}.group", message)
            known.add(identifier)
        return known

    # -- calls between graphs ----------------------------------------------------------------------

    def _calls(self, calls: list[list[Call]]) -> None:
        """Check that operators call graphs that exist, and that no graph calls itself, even indirectly."""
        count = len(self.graphs)
        callees: list[list[int]] = []
        for found in calls:
            for path, index, is_read in found:
                if not 0 <= index < count:
                    rule = "graph-index" if is_read else "kept-graph-index"
                    self.add(rule, path, f"index {index}, there are {count} graphs")
            callees.append(sorted({call.graph for call in found if 0 <= call.graph < count}))
        for first, second in _rings(callees):
            message = f"it calls graph {second}, which calls it"
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
                message = f"expected one of the graph's {side}, got tensor {index}"
                self.add("signature", f"{path}[{number}]", message)
            if name in seen:
                self.add("signature", f"{path}[{number}].name", f"{name!r} is the name of an earlier one")
            seen.add(name)

    def _texts(self, tree: object, path: str) -> None:
        """Check that strings are UTF-8; the schema bounds the depth of the recursion."""
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
    """Return (graph, callee) for each call that leads back to its graph, in time linear in the calls."""
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


def _check_loaded(data: memoryview, name: str, findings: Findings) -> None:
    """Check the rules of the operators (types and shapes), if the model can be loaded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            model = load_bytes(data, name)
    except CirclekitError as error:
        findings.add("load", "the file", error.message.removeprefix(f"{name}: "))
        return
    graphs = {id(graph) for graph in model.graphs}
    with_shapes = not any(finding.rule == "recursion" for finding in findings.list)
    places = [(g, i, op) for g, graph in enumerate(model.graphs) for i, op in enumerate(graph)]
    for graph, number, op in places:
        where = f"subgraphs[{graph}].operators[{number}]"
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
