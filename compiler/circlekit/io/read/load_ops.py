# SPDX-License-Identifier: Apache-2.0
"""Make operators from decoded tables.

An operator gets the class that is declared for its code.  If it does not fit this class, it becomes opaque.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from circlekit.io.findings import InvalidFile
from circlekit.io.operator_fields import OptionsPlan, attribute_of, code_key, options_plan, with_graphs
from circlekit.io.origin import absent
from circlekit.io.schema import Tree
from circlekit.ir.arity import arity_faults
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.ir.value import Array, Value


class OpLoader:
    """Creates the operators of one file.

    ``data``, ``name``, ``format``: the bytes, the name and the format of the file.
    ``codes``: the operator codes of the file, its list of kinds of operators.  ``keys``: (name, custom code,
    version) of each operator code.
    ``used``: the indices of the operator codes of all operators created so far.  ``far_options``: the custom
    options of these operators that are external data.
    ``graphs``: all graphs of the model.
    """

    def __init__(self, data: memoryview, name: str, fmt: str, codes: list[Tree], graphs: list[Graph]) -> None:
        self.data = data
        self.name = name
        self.format = fmt
        self.codes = codes
        self.keys = [code_key(code, fmt) for code in codes]
        self.graphs = graphs
        self.used: set[int] = set()
        self.far_options: list[Array] = []

    def fail(self, rule: str, path: str, what: str) -> NoReturn:
        """Raise InvalidFile: the file violates ``rule`` at ``path``.  ``what``: the message."""
        raise InvalidFile.of(self.name, rule, path, what)

    def op(self, tree: Tree, values: list[Value], path: str) -> Op:
        """Return the operator of the table ``tree``; fields that the IR does not represent become ``extra``.

        ``extra`` also gets keys that are not fields of the schema: see ``io.origin``.  ``values``: the values
        of the operator's graph.  Raise InvalidFile for an invalid index, for a result that has a producer
        already, and for custom options beyond the end of the file.
        """
        index = tree.pop("opcode_index", 0)
        if index >= len(self.codes):
            message = f"index {index}, there are {len(self.codes)} operator codes"
            self.fail("operator-code", path + ".opcode_index", message)
        self.used.add(index)
        missing = absent(tree, ("inputs", "outputs"))
        operands = self.pick(tree.pop("inputs", ()), values, path, "inputs", -1)
        results = [v for v in self.pick(tree.pop("outputs", ()), values, path, "outputs", 0) if v is not None]
        seen: set[int] = set()
        for i, value in enumerate(results):
            if value.producer is not None or id(value) in seen:
                message = f"%{value.name} is the result of an operator already"
                self.fail("one-producer", f"{path}.outputs[{i}]", message)
            seen.add(id(value))
        if "intermediates" in tree:
            tree["intermediates"] = self.pick(tree["intermediates"], values, path, "intermediates", -1)
        if "large_custom_options_offset" in tree:
            self.fetch_options(tree, path)
        code, _, version = self.keys[index]
        op_or_misfit = self.declared(code, tree, operands, results, path)
        if isinstance(op_or_misfit, str):
            op: Op = self.opaque(index, tree, operands, results)
            if op_or_misfit:
                tree["misfit"] = op_or_misfit
        else:
            op = op_or_misfit
        op.version = version
        tree["stored_code"] = index
        if missing:
            tree["absent"] = missing
        if isinstance(op, OpaqueOp):
            tree["stored_version"] = op.version
        op.extra = tree.copy()  # a dict keeps memory for removed fields, a copy does not
        return op

    def pick(
        self, indices: Sequence[int], values: list[Value], path: str, side: str, lowest: int
    ) -> list[Value | None]:
        """Return the values with these ``indices``, None for -1; raise InvalidFile for an invalid index.

        ``path``: the path of the operator or graph.  ``side``: its field that has the indices.  ``lowest``:
        the lowest valid index, -1 or 0.
        """
        numbers: list[int] = indices.tolist() if len(indices) else []  # type: ignore[attr-defined]
        count = len(values)
        for i, index in enumerate(numbers):
            if not lowest <= index < count:
                self.fail("tensor-index", f"{path}.{side}[{i}]", f"index {index}, there are {count} tensors")
        return [values[i] if i >= 0 else None for i in numbers]

    def fetch_options(self, tree: Tree, path: str) -> None:
        """Set the custom options of the operator ``tree`` if it has only their position in the file.

        Raise InvalidFile if they end beyond the file.
        """
        offset, size = tree["large_custom_options_offset"], tree.get("large_custom_options_size", 0)
        if offset <= 1 or "custom_options" in tree:  # 0 and 1 stand for no such options
            return
        if offset + size > len(self.data):
            message = f"{size} bytes at {offset} end beyond the file"
            self.fail("buffer-region", path + ".large_custom_options_offset", message)
        tree.pop("large_custom_options_size", None)
        del tree["large_custom_options_offset"]
        options = np.frombuffer(self.data, np.uint8, size, offset) if size else np.zeros(0, np.uint8)
        tree |= {"custom_options": options, "far_options": True}
        self.far_options.append(options)

    def opaque(self, index: int, tree: Tree, operands: list[Value | None], results: list[Value]) -> OpaqueOp:
        """Return an opaque operator, which ``save`` writes as it is in the file.

        ``index``: the index of its operator code.
        """
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
        self, code: str, tree: Tree, operands: list[Value | None], results: list[Value], path: str
    ) -> Op | str:
        """Return an operator of the class that is declared for ``code``.

        If the operator does not fit that class, return a sentence that says why.  If no class is declared,
        return "".
        If the operator fits, remove its options table from ``tree``.  The part of the table that attributes
        do not express (other fields, empty vectors) becomes the field "options" of ``tree``.
        ``path``: the path of the operator.  Raise InvalidFile for an index without a graph.
        """
        kind = REGISTRY.get(code)
        if kind is None:
            return ""
        for _, message in arity_faults(kind, operands, len(results)):  # the first fault is enough
            return message
        plan = options_plan(kind, self.format)  # type: ignore[arg-type]  # classes are hashable
        unions = [name for name in ("builtin_options", "builtin_options_2") if name in tree]
        tables = [tree[name][""] for name in unions]
        if unions and (plan is None or unions != [plan.union] or tables != [kind.options]):
            return f"expected {kind.options or 'no options'}, got {' and '.join(map(str, tables))}"
        if plan is None:
            return kind(*operands, results=results)
        options = tree.get(plan.union)
        if options is None:
            key = f"{plan.union}_type"
            tree["no_options"] = tree.pop(key) if tree.get(key) == kind.options else True
            return kind(*operands, results=results)
        attributes = self.attributes(plan, options, path)
        if isinstance(attributes, str):
            return attributes
        del tree[plan.union]
        rest = {  # fields that are not attributes, and empty vectors: ``save`` omits an empty attribute
            name: value
            for name, value in options.items()
            if name and (name not in plan.declared or (hasattr(value, "__len__") and not len(value)))
        }
        if rest:
            tree["options"] = rest
        return kind(*operands, results=results, **attributes)

    def attributes(self, plan: OptionsPlan, options: Tree, path: str) -> dict[str, Any] | str:
        """Return the attributes by name, or a sentence if the declaration does not allow a value.

        ``path``: the path of the operator.  Raise InvalidFile for an index without a graph.
        """
        out: dict[str, Any] = {}
        for slot in plan.slots:
            attribute, field = slot
            # An absent field has the default of the field.  Usually the attribute has the same default, and
            # need not be set.  A dtype is set even then: ``implied_attributes`` may give another dtype.
            has_same_default = not attribute.is_graph and not slot.defaults_differ
            if field.name not in options and has_same_default and not isinstance(attribute.default, DType):
                continue
            value = options.get(field.name, field.default)
            try:
                out[attribute.name] = attribute_of(slot, value, self.graphs)
            except LookupError:
                if attribute.is_graph:
                    message = f"index {value}, there are {len(self.graphs)} graphs"
                    self.fail("graph-index", f"{path}.{plan.union}.{field.name}", message)
                return f"{field.name} cannot be {value}"
        return out
