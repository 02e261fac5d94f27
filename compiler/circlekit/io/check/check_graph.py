# SPDX-License-Identifier: Apache-2.0
"""Check one graph of a decoded file: its operators, their order, its interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from circlekit.io.check.check_tensor import TensorChecker
from circlekit.io.check.findings import Findings
from circlekit.io.operator_fields import CodeKey
from circlekit.io.schema import Kind, Tree, options_field, table
from circlekit.ir.op import REGISTRY, Op


class Call(NamedTuple):
    """A field with the index of a graph.

    ``is_read``: whether load interprets the field; if not, -1 means no graph.
    """

    path: str
    graph: int
    is_read: bool


class GraphChecker:
    """Checks one graph.

    size: Bytes of the file.
    calls: The graphs that the operators call.
    maker: Index of the operator that computes each tensor, by index of the tensor.
    """

    def __init__(
        self,
        findings: Findings,
        tree: Tree,
        path: str,
        codes: Sequence[CodeKey],
        tensors: TensorChecker,
        size: int,
    ) -> None:
        self.findings = findings
        self.add = findings.add
        self.tree = tree
        self.path = path
        self.codes = codes
        self.checker = tensors
        self.tensors: Sequence[Tree] = tree.get("tensors", ())
        self.operators: Sequence[Tree] = tree.get("operators", ())
        self.size = size
        self.calls: list[Call] = []
        self.maker: dict[int, int] = {}

    def check(self, fmt: str, is_const: Callable[[Tree], bool]) -> None:
        for number, tensor in enumerate(self.tensors):
            self.checker.check(tensor, f"{self.path}.tensors[{number}]", len(self.tensors))
        constants = {i for i, tensor in enumerate(self.tensors) if is_const(tensor)}
        inputs = set(self._indices(self.tree, "inputs", self.path, 0))
        self._interface(inputs, constants)
        self._makers(inputs, constants)
        there = inputs | constants
        there |= {i for i, t in enumerate(self.tensors) if t.get("is_variable") or _is_empty(t)}
        for number, op in enumerate(self.operators):
            self._operator(number, op, f"{self.path}.operators[{number}]", fmt, there)
        for place, index in enumerate(int(i) for i in self.tree.get("outputs", ())):
            if 0 <= index < len(self.tensors) and index not in there and index not in self.maker:
                message = f"no operator computes {self._name(index)}"
                self.add("no-producer", f"{self.path}.outputs[{place}]", message)

    # -- indices -----------------------------------------------------------------------------------

    def _indices(self, tree: Tree, side: str, path: str, least: int) -> list[int]:
        """Return the valid indices of a field.  ``least``: the least allowed one, -1 for an absent tensor."""
        count = len(self.tensors)
        numbers = [int(i) for i in tree.get(side, ())]
        for place, index in enumerate(numbers):
            if not least <= index < count:
                self.add(
                    "tensor-index", f"{path}.{side}[{place}]", f"index {index}, there are {count} tensors"
                )
        return [i for i in numbers if 0 <= i < count]

    def _name(self, index: int) -> str:
        return f"tensor {index} {self.tensors[index].get('name') or '(noname)'!r}"

    # -- the graph ---------------------------------------------------------------------------------

    def _interface(self, inputs: set[int], constants: set[int]) -> None:
        seen: dict[str, int] = {}
        for side in ("inputs", "outputs"):
            listed = self.tree.get(side, ())
            if side == "outputs":
                self._indices(self.tree, side, self.path, 0)
            elif len(inputs) < len(listed):
                self._repeated([int(i) for i in listed], side)
            for place, index in enumerate(int(i) for i in listed):
                if not 0 <= index < len(self.tensors):
                    continue
                name = self.tensors[index].get("name")
                if not name:
                    self.add("interface", f"{self.path}.{side}[{place}]", f"tensor {index} has no name")
                elif seen.setdefault(name, index) != index:
                    message = f"tensors {seen[name]} and {index} are both named {name!r}"
                    self.add("interface", f"{self.path}.{side}[{place}]", message)
        for index in sorted(inputs & constants):
            self.add("interface", f"{self.path}.inputs", f"{self._name(index)} is a constant")

    def _repeated(self, listed: list[int], side: str) -> None:
        seen: set[int] = set()
        for place, index in enumerate(listed):
            if index in seen:
                message = f"tensor {index} is listed twice"
                self.add("interface", f"{self.path}.{side}[{place}]", message)
            seen.add(index)

    def _makers(self, inputs: set[int], constants: set[int]) -> None:
        """Record which operator computes each tensor; at most one operator may."""
        for number, op in enumerate(self.operators):
            path = f"{self.path}.operators[{number}]"
            for place, index in enumerate(self._indices(op, "outputs", path, 0)):
                where = f"{path}.outputs[{place}]"
                if index in self.maker:
                    message = f"{self._name(index)} is the result of operator {self.maker[index]} already"
                    self.add("one-producer", where, message)
                elif index in inputs or index in constants:
                    kind = "an input of the graph" if index in inputs else "a constant"
                    self.add("overwrite", where, f"{self._name(index)} is {kind}")
                self.maker.setdefault(index, number)

    # -- operators ---------------------------------------------------------------------------------

    def _operator(self, number: int, tree: Tree, path: str, fmt: str, there: set[int]) -> None:
        self._indices(tree, "intermediates", path, -1)
        self._indices(tree, "inputs", path, -1)
        for place, index in enumerate(int(i) for i in tree.get("inputs", ())):
            if not 0 <= index < len(self.tensors) or index in there:
                continue
            made = self.maker.get(index)
            where = f"{path}.inputs[{place}]"
            if made is None:
                self.add("no-producer", where, f"no operator computes {self._name(index)}")
            elif made >= number:
                self.add("order", where, f"{self._name(index)} is computed later, by operator {made}")
        code = tree.get("opcode_index", 0)
        if code >= len(self.codes):
            message = f"index {code}, there are {len(self.codes)} operator codes"
            self.add("operator-code", f"{path}.opcode_index", message)
            return
        name, custom_code, _ = self.codes[code]
        if name == "CUSTOM" and not custom_code:
            self.add("custom-code", path, "a custom operator without a name")
        kind = REGISTRY.get(name)
        before = len(self.findings.list)
        if kind is not None:
            self._arity(kind, tree, path)
        self._options(kind, tree, path, fmt, len(self.findings.list) == before)
        offset, size = tree.get("large_custom_options_offset", 0), tree.get("large_custom_options_size", 0)
        if offset > 1 and "custom_options" not in tree and offset + size > self.size:
            message = f"{size} bytes at {offset} end beyond the file, which has {self.size}"
            self.add("buffer-region", f"{path}.large_custom_options_offset", message)

    def _arity(self, kind: type[Op], tree: Tree, path: str) -> None:
        """Check the numbers of operands and results against the declaration."""
        inputs = [int(i) for i in tree.get("inputs", ())]
        results, expected = len(tree.get("outputs", ())), len(kind.result_names)
        if results != expected and not kind.variadic_results:
            self.add(
                "results", f"{path}.outputs", f"expected {expected} results of {kind.code}, got {results}"
            )
        specs = kind.operands
        is_variadic = bool(specs) and specs[-1].variadic
        if len(inputs) > len(specs) and not is_variadic:
            message = f"expected at most {len(specs)} operands of {kind.code}, got {len(inputs)}"
            self.add("operands", f"{path}.inputs", message)
        for place, spec in enumerate(specs):
            if spec.variadic:
                for later in range(place, len(inputs)):
                    if inputs[later] == -1:
                        self.add("operands", f"{path}.inputs[{later}]", f"{kind.code} lacks its {spec.name}")
            elif not spec.optional and (place >= len(inputs) or inputs[place] == -1):
                self.add("operands", f"{path}.inputs[{place}]", f"{kind.code} lacks its {spec.name}")

    def _options(self, kind: type[Op] | None, tree: Tree, path: str, fmt: str, fits: bool) -> None:
        """Check the options: the table of the operator's kind, enum values of the schema; note the calls.

        ``fits``: whether the operator agrees with the declaration of its kind; if not, load keeps it opaque.
        """
        for union in ("builtin_options", "builtin_options_2"):
            if f"{union}_type" in tree:
                message = f"expected a table of type {tree[f'{union}_type']}, got none"
                self.add("options", f"{path}.{union}", message)
            options = tree.get(union)
            if options is None:
                continue
            name = options[""]
            if kind is not None and (kind.options != name or options_field(name) != union):
                message = f"expected {kind.options or 'no options'} for {kind.code}, got {name}"
                self.add("options", f"{path}.{union}", message)
            is_read = fits and kind is not None and kind.options == name
            for field_path, index in graph_indices(options, fmt):
                if is_read or index != -1:
                    self.calls.append(Call(f"{path}.{union}.{field_path}", index, is_read))
            for field in table(name, fmt).fields:
                value = options.get(field.name, "")
                if field.enum is not None and field.kind is Kind.SCALAR and not isinstance(value, str):
                    message = f"{field.enum.name} has no value {value}"
                    self.add("enum", f"{path}.{union}.{field.name}", message)


def graph_indices(options: Tree, fmt: str) -> Iterator[tuple[str, int]]:
    """Yield (field, index) of every field of an options table that holds the index of a graph."""
    for field in table(options[""], fmt).fields:
        if field.name == "subgraph" or field.name.endswith("subgraph_index"):
            value: Any = options.get(field.name, field.default)
            yield field.name, int(value)
        elif field.name.endswith("subgraph_indices"):
            for place, value in enumerate(options.get(field.name, ())):
                yield f"{field.name}[{place}]", int(value)


def _is_empty(tensor: Tree) -> bool:
    """Return whether a tensor has no elements, and so needs no data."""
    shape = tensor.get("shape")
    return shape is not None and any(int(d) == 0 for d in shape)
