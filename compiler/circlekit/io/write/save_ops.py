# SPDX-License-Identifier: Apache-2.0
"""Convert operators to tables of the schema, as dicts (``schema.Tree``), and collect their operator codes."""

from __future__ import annotations

import re
from typing import Any

from circlekit.errors import ModelError, UnsupportedError, shown
from circlekit.io.operator_fields import (
    PLACEHOLDER,
    OptionsPlan,
    code_key,
    options_plan,
    stored_attribute,
    without_graphs,
)
from circlekit.io.origin import NO_ORIGIN, Origin, drop_absent, extra_fault
from circlekit.io.schema import Tree, enumeration, options_field, table
from circlekit.io.write.buffer_table import ConstantBytes
from circlekit.ir.graph import Model
from circlekit.ir.location import place
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Value

OWN_KEYS: dict[str, tuple[type, ...]] = {
    "options": (dict,), "no_options": (bool, str), "far_options": (bool,), "stored_version": (int,),
    "stored_code": (int,), "absent": (list, tuple), "misfit": (str,),
}  # fmt: skip
"""The keys of Op.extra that are not fields of the schema's Operator, with their types; see ``io.origin``."""


class OpSaver:
    """Creates the trees of all operators of one file.

    ``origin``: the origin of the model if the input file has the format to write, else NO_ORIGIN.
    ``input_format``: the format of the input file; for a model that was not loaded from a file, the format of
    the model.  ``keeps_format``: whether ``input_format`` is the format to write.
    ``codes``: the tables of the operator codes (operator, custom code, version): first those of the input
    file, then new ones.
    ``input_keys``: the CodeKey of each operator code of the input file.
    ``keys``: the index of the first code with each key.  ``used``: the indices of the codes that operators
    have.
    """

    def __init__(self, fmt: str, origin: Origin, model: Model) -> None:
        self.model = model
        self.format = fmt
        self.origin = origin if origin.format == fmt else NO_ORIGIN
        self.input_format = origin.format or model.format
        self.keeps_format = self.input_format == fmt
        self.graphs = {id(graph): index for index, graph in enumerate(model.graphs)}
        self.codes: list[Tree] = list(self.origin.codes)
        self.input_keys = [code_key(tree, fmt) for tree in self.codes]
        self.keys = {key: index for index, key in reversed(list(enumerate(self.input_keys)))}
        self.used: set[int] = set()

    def tree(self, op: Op, tensors: dict[int, int]) -> Tree:
        """Return the tree of ``op``.  ``tensors``: the index of each value by ``id(value)``.

        The ``opcode_index`` of the tree is an index into ``codes``; ``operator_codes`` replaces it later.
        Raise ModelError if ``op.extra`` is wrong, or if ``op`` calls a graph that is not in the model.
        """
        if (fault := extra_fault(op.extra, OWN_KEYS)) is not None:
            raise ModelError(fault, place(op, self.model))
        for graph in op.called_graphs():
            if id(graph) not in self.graphs:
                message = f"{op.code} calls the graph {shown(graph.name)}, which is not in the model"
                raise ModelError(message, place(op, self.model))
        tree: Tree = {k: v for k, v in op.extra.items() if k not in OWN_KEYS}
        tree["opcode_index"] = self.code(op)
        tree["inputs"] = [-1 if v is None else tensors[id(v)] for v in op.inputs]
        tree["outputs"] = [tensors[id(v)] for v in op.results]
        if "intermediates" in tree:
            tree["intermediates"] = [-1 if v is None else tensors[id(v)] for v in self.intermediates(op)]
        drop_absent(tree, op.extra.get("absent", ()))
        self.options(op, tree)
        if op.extra.get("far_options") and "custom_options" in tree:
            data = ConstantBytes(tree.pop("custom_options"))
            tree |= {"large_custom_options_offset": data, "large_custom_options_size": len(data)}
        return tree

    def intermediates(self, op: Op) -> list[Value | None]:
        """Return the ``intermediates`` in ``op.extra``; raise ModelError if they are not values."""
        found = op.extra.get("intermediates", [])
        if not isinstance(found, list) or not all(isinstance(v, Value | None) for v in found):
            message = f"intermediates in extra: expected a list of values, got {found!r}"
            raise ModelError(message, place(op, self.model))
        return found

    def operator_codes(self, trees: list[Tree]) -> list[Tree]:
        """Return the codes to write; make each ``opcode_index`` in ``trees`` an index into this list."""
        written = sorted(self.used | self.origin.unused_codes)
        index = {old: new for new, old in enumerate(written)}
        for tree in trees:
            tree["opcode_index"] = index[tree["opcode_index"]]
        return [self.codes[i] for i in written]

    # -- codes ---------------------------------------------------------------------------------

    def code(self, op: Op) -> int:
        """Return the index of the operator's code in ``codes``; add the code if it is new."""
        custom = op.custom_code if isinstance(op, OpaqueOp) else None
        key = (op.code, custom or None, self.version(op))
        # the code that the operator has in the input file is kept if its key is still the operator's key
        stored: int = op.extra.get("stored_code", 0)
        index = stored if self.input_keys[stored : stored + 1] == [key] else self.keys.get(key)
        if index is None:
            index = self.keys[key] = len(self.codes)
            self.codes.append(self.new_code(op, custom, key[2]))
        self.used.add(index)
        return index

    def version(self, op: Op) -> int:
        """Return the operator version to write.

        An operator from a file has a stated version; an operator from text has one if the text states it; a
        new or changed operator of a declared class has none.  Return the stated version, or the required
        version if none is stated.  If the format changes, return the higher of the two.
        """
        stated: int | None = op.version if op.version is not None else op.extra.get("stored_version")
        if stated is None:
            return op.required_version()
        return stated if self.keeps_format else max(stated, op.required_version())

    def new_code(self, op: Op, custom: str | None, version: int) -> Tree:
        """Return the table of a new operator code; raise UnsupportedError if the format lacks ``op.code``."""
        number = enumeration("BuiltinOperator", self.format).numbers.get(op.code)
        unknown = re.fullmatch(r"UNKNOWN_(-?\d+)", op.code)  # see ``code_key``
        if number is None and unknown is not None:
            number = int(unknown[1])
            # negative numbers are circle's own operators: keep one only in the format of the input file
            if number < 0 and not self.origin.format:
                number = None
        if number is None or self.format not in op.formats:
            raise UnsupportedError(f".{self.format} has no operator {op.code}", place(op, self.model))
        one_byte = min(number, PLACEHOLDER)
        name = op.code if unknown is None else number
        tree: Tree = {"deprecated_builtin_code": one_byte, "builtin_code": name, "version": version}
        return tree if custom is None else {**tree, "custom_code": custom}

    # -- options -------------------------------------------------------------------------------

    def options(self, op: Op, tree: Tree) -> None:
        """Add the options of ``op`` to ``tree``."""
        if isinstance(op, OpaqueOp):
            options = None if op.option_tree is None else without_graphs(op.option_tree, self.graphs)
            name = None if options is None else options.get("")
            union = options_field(name) if isinstance(name, str) else None
            if options is not None and union is None:
                message = f"expected the name of an options table under the key '', got {name!r}"
                raise ModelError(message, place(op, self.model))
        else:
            plan = options_plan(type(op), self.format)  # type: ignore[arg-type]  # classes are hashable
            if plan is None:
                return
            options, union = self.attributes(op, plan), plan.union
            # the input file states the type of the options table, but has no table
            if options is None and op.extra["no_options"] == op.options:
                tree[f"{union}_type"] = op.options
        if options is None or union is None:
            return
        self.check(options, union, op)
        tree[union] = options

    def attributes(self, op: Op, plan: OptionsPlan) -> Tree | None:
        """Return the options table of a declared operator.

        Return None (no table is written) if the input file has no options table for the operator, and all
        attributes have their defaults.
        """
        set_values = op.attribute_values
        if op.extra.get("no_options") and all(
            set_values.get(a.name, a.default) == a.default for a in op.attributes
        ):
            return None
        options: dict[str, Any] = {"": op.options, **op.extra.get("options", {})}
        values = op.attribute_items()
        for slot in plan.slots:
            attribute, field = slot
            stored = stored_attribute(slot, values[attribute.name], self.graphs)
            if stored is not None:
                options[field.name] = stored
        return options

    def check(self, options: Tree, union: str, op: Op) -> None:
        """Raise UnsupportedError if the format cannot express ``options``.

        The format may lack the table or a field.  If the format changes, an enum value that is a number
        without a name is refused too, because it may mean something else in the new format.
        """
        name = options[""]
        enum = "BuiltinOptions2" if union.endswith("2") else "BuiltinOptions"
        if name not in enumeration(enum, self.format).numbers:
            raise UnsupportedError(f".{self.format} has no {name}", place(op, self.model))
        fields = table(name, self.format).by_name
        for field, value in options.items() if not self.keeps_format else ():
            if isinstance(value, int) and field in fields and fields[field].enum is not None:
                found = f"{name}.{field} is {value}, a number without a name in .{self.input_format}"
                reason = f"it may mean something else in .{self.format}"
                raise UnsupportedError(f"{found}: {reason}", place(op, self.model))
        for field in table(name, self.format).foreign & options.keys():
            raise UnsupportedError(f".{self.format} has no {name}.{field}", place(op, self.model))
