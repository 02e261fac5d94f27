# SPDX-License-Identifier: Apache-2.0
"""Operators of a decoded file to Ops: of their declared class if there is one, else opaque."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from circlekit.errors import FormatError
from circlekit.io.operator_fields import OptionsPlan, attribute_of, code_key, options_plan, with_graphs
from circlekit.io.origin import absent
from circlekit.io.schema import Tree
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.ir.value import Value


class OpLoader:
    """Makes the operators of one file.

    keys: Key of every operator code; ``repeated``: indices of codes that are equal to an earlier one.
    used: Indices of the operator codes that operators have.
    """

    def __init__(self, data: memoryview, name: str, fmt: str, codes: list[Tree], graphs: list[Graph]) -> None:
        self.data = data
        self.name = name
        self.format = fmt
        self.codes = codes
        self.keys = [code_key(code, fmt) for code in codes]
        first = {key: index for index, key in reversed(list(enumerate(self.keys)))}
        self.repeated = {index for index, key in enumerate(self.keys) if first[key] != index}
        self.graphs = graphs
        self.used: set[int] = set()

    def fail(self, path: str, what: str) -> NoReturn:
        raise FormatError(f"{self.name}: {path}: {what}")

    def load(self, graph: Graph, trees: Sequence[Tree], values: list[Value], path: str) -> None:
        """Append the operators ``trees`` to ``graph``."""
        for number, tree in enumerate(trees):
            graph.append(self.op(tree, values, f"{path}.operators[{number}]"))

    def op(self, tree: Tree, values: list[Value], path: str) -> Op:
        index = tree.pop("opcode_index", 0)
        if index >= len(self.codes):
            self.fail(path + ".opcode_index", f"index {index}, there are {len(self.codes)} operator codes")
        self.used.add(index)
        missing = absent(tree, ("inputs", "outputs"))
        operands = self.pick(tree.pop("inputs", ()), values, path, "inputs", 0)
        results = [v for v in self.pick(tree.pop("outputs", ()), values, path, "outputs", 1) if v is not None]
        seen: set[int] = set()
        for i, value in enumerate(results):
            if value.producer is not None or id(value) in seen:
                self.fail(f"{path}.outputs[{i}]", f"%{value.name} is the result of an operator already")
            seen.add(id(value))
        if "intermediates" in tree:
            tree["intermediates"] = self.pick(tree["intermediates"], values, path, "intermediates", 0)
        if "large_custom_options_offset" in tree:
            self.fetch_options(tree, path)
        op = self.declared(index, tree, operands, results, path)
        op = op or self.opaque(index, tree, operands, results)
        op.version = self.keys[index][2]
        if index in self.repeated:
            tree["stored_code"] = index
        if isinstance(op, OpaqueOp):
            tree["stored_version"] = op.version
        if missing:
            tree["absent"] = missing
        op.extra = tree
        return op

    def pick(
        self, indices: Sequence[int], values: list[Value], path: str, side: str, least: int
    ) -> list[Value | None]:
        """Return the values of ``indices``; None for -1, which is allowed if ``least`` is 0."""
        numbers: list[int] = indices.tolist() if len(indices) else []  # type: ignore[attr-defined]
        count = len(values)
        for i, index in enumerate(numbers):
            if not least - 1 <= index < count:
                self.fail(f"{path}.{side}[{i}]", f"index {index}, there are {count} tensors")
        return [values[i] if i >= 0 else None for i in numbers]

    def fetch_options(self, tree: Tree, path: str) -> None:
        """Read custom options that are external data."""
        offset, size = tree["large_custom_options_offset"], tree.get("large_custom_options_size", 0)
        if offset <= 1 or "custom_options" in tree:
            return
        if offset + size > len(self.data):
            self.fail(path + ".large_custom_options_offset", f"{size} bytes at {offset} end beyond the file")
        tree.pop("large_custom_options_size", None)
        del tree["large_custom_options_offset"]
        tree["custom_options"] = (
            np.frombuffer(self.data, np.uint8, size, offset) if size else np.zeros(0, np.uint8)
        )
        tree["far_options"] = True

    def opaque(self, index: int, tree: Tree, operands: list[Value | None], results: list[Value]) -> OpaqueOp:
        """Return an operator that is kept as it is."""
        options = tree.pop("builtin_options", None) or tree.pop("builtin_options_2", None)
        options = None if options is None else with_graphs(options, self.graphs)
        return OpaqueOp(
            *operands,
            code=self.keys[index][0],
            results=results,
            custom_code=self.codes[index].get("custom_code"),
            option_tree=options,
        )

    def declared(
        self, index: int, tree: Tree, operands: list[Value | None], results: list[Value], path: str
    ) -> Op | None:
        """Return an operator of its declared class; None if it has none or does not fit it."""
        kind = REGISTRY.get(self.keys[index][0])
        if kind is None or not _fits(kind, operands, results):
            return None
        plan = options_plan(kind, self.format)  # type: ignore[arg-type]  # classes are hashable
        unions = [name for name in ("builtin_options", "builtin_options_2") if name in tree]
        if plan is None:
            return None if unions else kind(*operands, results=results)
        options = tree.get(plan.union)
        if options is None:
            if unions:
                return None
            tree["no_options"] = True
            return kind(*operands, results=results)
        if len(unions) > 1 or options[""] != kind.options:
            return None
        attributes = self.attributes(plan, options, path)
        if attributes is None:
            return None
        del tree[plan.union]
        rest = {  # fields without an attribute, and empty vectors: an attribute has no absent vector
            name: value
            for name, value in options.items()
            if name and (name not in plan.declared or (hasattr(value, "__len__") and not len(value)))
        }
        if rest:
            tree["options"] = rest
        return kind(*operands, results=results, **attributes)

    def attributes(self, plan: OptionsPlan, options: Tree, path: str) -> dict[str, Any] | None:
        """Return the attributes by name; None if the declaration does not allow one of the values."""
        out: dict[str, Any] = {}
        for slot in plan.slots:
            attribute, field = slot
            if field.name not in options and not attribute.is_graph and not slot.differs:
                continue
            value = options.get(field.name, field.default)
            try:
                out[attribute.name] = attribute_of(slot, value, self.graphs)
            except LookupError:
                if attribute.is_graph:
                    self.fail(f"{path}.{field.name}", f"index {value}, there are {len(self.graphs)} graphs")
                return None
        return out


def _fits(kind: type[Op], operands: list[Value | None], results: list[Value]) -> bool:
    """Return whether the declaration allows these numbers of operands and results."""
    if not kind.variadic_results and len(results) != len(kind.result_names):
        return False
    specs = kind.operands
    is_variadic = bool(specs) and specs[-1].variadic
    if len(operands) > len(specs) and not is_variadic:
        return False
    for index, spec in enumerate(specs):
        if spec.variadic:
            return all(v is not None for v in operands[index:])
        if not spec.optional and (index >= len(operands) or operands[index] is None):
            return False
    return True
