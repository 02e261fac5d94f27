# SPDX-License-Identifier: Apache-2.0
"""Check the bytes of a model file against all rules of ``io.findings``.

``load`` checks the rules of severity ``refused``.  The first violation of such a rule ends the whole check.
A table of the file is decoded to a ``schema.Tree``, a dict without the fields that the file omits.  So each
``tree.get(name, default)`` here states the default of the schema: 0, "" or ().
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping

from circlekit.errors import CirclekitError, FormatWarning, UnsupportedError, counted
from circlekit.io.check.check_graph import interface_findings, operator_findings, order_findings
from circlekit.io.check.check_tensor import tensor_findings
from circlekit.io.findings import Finding, InvalidFile
from circlekit.io.operator_fields import PLACEHOLDER
from circlekit.io.read.flatbuffer_decoder import RUNTIME_TABLES, Decoder, identify
from circlekit.io.read.load import load_bytes, unidentified
from circlekit.io.schema import TFLITE_VERSION, Kind, Table, Tree, number_of, table
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import check_op
from circlekit.ir.verifier import op_faults, recursive_calls


def check_bytes(data: memoryview, name: str = "<bytes>") -> list[Finding]:
    """Return the findings of a model file; [] for a valid file.

    Of the fields that the schema lacks, at most ``flatbuffer_decoder.MAX_WARNINGS`` are listed.
    ``name``: the file's name.
    """
    fmt = identify(data)
    if fmt is None:
        return [Finding("format", "the file", unidentified(data))]
    findings: list[Finding] = []
    decoder = Decoder(data, fmt, name, lambda path, what: findings.append(Finding("lost", path, what)))
    try:
        tree = decoder.root()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            model = load_bytes(data, name)  # decodes again, because loading removes fields from its tree
    except InvalidFile as error:
        return [*findings, error.finding]
    except CirclekitError as error:
        return [*findings, Finding("load", "the file", error.message.removeprefix(f"{name}: "))]
    if decoder.tables > RUNTIME_TABLES:
        message = f"expected at most {RUNTIME_TABLES} tables for the C++ verifier, got {decoder.tables}"
        findings.append(Finding("tables", "the file", message))
    findings += _head(tree, model)
    external: set[int] = set()
    findings += _external(tree, external)
    for number, (graph, graph_tree) in enumerate(zip(model.graphs, tree["subgraphs"], strict=True)):
        path = f"subgraphs[{number}]"
        for i, (value, tensor) in enumerate(zip(graph.table, graph_tree.get("tensors", ()), strict=True)):
            findings += tensor_findings(value, tensor, f"{path}.tensors[{i}]", external)
        findings += interface_findings(graph, path)
        findings += order_findings(graph, path)
        for i, (op, operator) in enumerate(zip(graph, graph_tree.get("operators", ()), strict=True)):
            where = f"{path}.operators[{i}]"
            findings += operator_findings(op, operator, where, len(model.graphs))
    findings += _signatures(tree)
    findings += _texts(tree, "")
    findings += _enums(tree, table("Model", fmt), "")
    findings += _operators(model)
    return findings


def _head(tree: Tree, model: Model) -> Iterator[Finding]:
    """Check the version, the operator codes and buffer 0 of the table Model.

    An operator code has the number of its operator in two fields.  Old readers use
    ``deprecated_builtin_code``, one byte: the number, or PLACEHOLDER if the number does not fit.  New readers
    use ``builtin_code``.  In the tree, this field is a name, or a number if the schema has no name for it.
    """
    version = tree.get("version", 0)
    if model.format == "tflite" and version != TFLITE_VERSION:
        message = f"expected {TFLITE_VERSION}, as LiteRT requires, got {version}"
        yield Finding("version", "version", message)
    for number, code in enumerate(tree.get("operator_codes", ())):
        old, new = code.get("deprecated_builtin_code", 0), code.get("builtin_code", 0)
        path = f"operator_codes[{number}].builtin_code"
        if not isinstance(new, str) and new:  # not in the schema, see ``_enums``
            continue
        code_number = number_of("BuiltinOperator", model.format, new)
        if code_number and old != min(code_number, PLACEHOLDER):
            yield Finding("code-fields", path, f"{code_number} ({new}), but deprecated_builtin_code is {old}")
        elif old == PLACEHOLDER and not code_number:
            message = f"expected an operator, because deprecated_builtin_code is {old}, got none"
            yield Finding("code-fields", path, message)
    for data in model.extra["origin"].buffers[:1]:
        if data is not None and len(data):
            message = f"expected no data in buffer 0, got {counted(len(data), 'byte')}"
            yield Finding("buffer-zero", "buffers[0]", message)


def _external(tree: Tree, ids: set[int]) -> Iterator[Finding]:
    """Check the list of external buffers and add their ids to ``ids``.

    The data of external buffers are in other files, which are not opened.
    """
    groups = len(tree.get("external_buffer_groups", ()))
    for number, item in enumerate(tree.get("external_buffers", ())):
        path, identifier, group = f"external_buffers[{number}]", item.get("id", 0), item.get("group", 0)
        if identifier in ids:
            message = f"expected a unique id, got {identifier} again"
            yield Finding("external-buffer", f"{path}.id", message)
        if group >= groups:
            message = f"index {group}, there are {groups} groups"
            yield Finding("external-buffer", f"{path}.group", message)
        ids.add(identifier)


def _signatures(tree: Tree) -> Iterator[Finding]:
    """Check that signatures refer to inputs and outputs of their graph, and that keys and names are unique.

    An input and an output may have the same name.
    Also report each field ``deprecated_tag``, because ``load`` does not keep it.
    """
    keys: set[str] = set()
    for number, signature in enumerate(tree.get("signature_defs", ())):
        key = signature.get("signature_key", "")
        if key in keys:
            path = f"signature_defs[{number}].signature_key"
            yield Finding("signature", path, f"expected a unique key, got {key!r} again")
        keys.add(key)
        graph = tree["subgraphs"][signature.get("subgraph_index", 0)]
        for side in ("inputs", "outputs"):
            interface = {int(i) for i in graph.get(side, ())}
            seen: set[str] = set()
            for i, item in enumerate(signature.get(side, ())):
                path = f"signature_defs[{number}].{side}[{i}]"
                index, name = item.get("tensor_index", 0), item.get("name", "")
                if index not in interface:
                    message = f"expected one of the graph's {side}, got tensor {index}"
                    yield Finding("signature", path, message)
                if name in seen:
                    yield Finding("signature", f"{path}.name", f"expected a unique name, got {name!r} again")
                seen.add(name)
        if "deprecated_tag" in signature:
            path = f"signature_defs[{number}].deprecated_tag"
            yield Finding("lost", path, f"{signature['deprecated_tag']!r} is lost")


def _texts(tree: object, path: str) -> Iterator[Finding]:
    """Check that all strings in ``tree`` are UTF-8.  ``path``: the path of ``tree`` in the file.

    The decoder turns a byte that is not UTF-8 into a surrogate, a character from U+DC80 to U+DCFF.
    """
    if isinstance(tree, str):
        if not tree.isascii() and any("\udc80" <= c <= "\udcff" for c in tree):
            yield Finding("text", path, f"{tree[:40]!r} is not UTF-8")
    elif isinstance(tree, Mapping):
        for name, value in tree.items():
            if isinstance(value, str | dict | list):
                yield from _texts(value, f"{path}.{name}" if path else name)
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            if isinstance(value, str | dict):
                yield from _texts(value, f"{path}[{number}]")


def _enums(tree: Tree, spec: Table, path: str) -> Iterator[Finding]:
    """Check that all enum values in ``tree`` have a name in the schema; the decoder keeps others as numbers.

    ``spec``: the type of the table ``tree``.  ``path``: the path of ``tree`` in the file.
    """
    for name, value in tree.items():
        field = spec.by_name.get(name)
        if field is None:  # "": the name of the table
            continue
        where = f"{path}.{name}" if path else name
        is_table = bool(field.table) or field.kind is Kind.UNION
        if not is_table and field.enum is None:
            continue
        is_vector = field.kind in (Kind.TABLES, Kind.VECTOR)
        for index, item in enumerate(value if is_vector else [value]):
            place = f"{where}[{index}]" if is_vector else where
            if is_table:
                yield from _enums(item, table(field.table or item[""], spec.format), place)
            elif field.enum is not None and not isinstance(item, str):
                yield Finding("enum", place, f"{field.enum.name} has no value {item}")


def _operators(model: Model) -> Iterator[Finding]:
    """Check calls between graphs, and the types and shapes of operators."""
    numbers = {id(graph): number for number, graph in enumerate(model.graphs)}
    has_recursion = False
    for caller, callee in recursive_calls(model):
        has_recursion = True
        message = f"it calls graph {numbers[id(callee)]}, which calls it back, directly or through others"
        yield Finding("recursion", f"subgraphs[{numbers[id(caller)]}]", message)
    for graph in model.graphs:
        for number, op in enumerate(graph):
            where = f"subgraphs[{numbers[id(graph)]}].operators[{number}]"
            faults = list(op_faults(op, numbers.keys()))
            for message in faults:
                yield Finding("operator-type", where, message)
            if faults or has_recursion:  # shape rules rely on valid types and calls
                continue
            try:
                check_op(op)
            except UnsupportedError:  # the operator has no shape rule
                continue
            except CirclekitError as error:
                yield Finding("operator-shape", where, f"{op.code}: {error.message}")
