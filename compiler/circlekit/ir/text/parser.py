# SPDX-License-Identifier: Apache-2.0
"""Parse the text form of a model.

The text may come from an untrusted source: fillers obey the memory limit, and files are read only by the
function ``resolve`` of the caller.  If the text leaves out the dtype or the shape of a result, or both, the
parser infers what is missing.  A text without a ``model`` line is a circle model.  The default seed of a
filler such as ``gaussian(0, 1)`` depends on the names of its graph and its value, but not on the name of the
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from circlekit.errors import CirclekitError, counted, did_you_mean
from circlekit.ir.arity import arity_faults
from circlekit.ir.core import Graph, Op, Value, unique_name
from circlekit.ir.declaration import Operand
from circlekit.ir.graph import Model, Signature, postorder
from circlekit.ir.op import REGISTRY, OpaqueOp
from circlekit.ir.resources.resource_limits import counted_memory
from circlekit.ir.text.constant_data import Resolve, constant_array, dtype_alike, inline_array
from circlekit.ir.text.document import GraphNode, SignatureNode, ValueNode, parse_document
from circlekit.ir.text.lexer import Source, Token
from circlekit.ir.text.literal_parsing import attribute_of, literal_dtype, tree_of
from circlekit.ir.text.operator_names import suggest_operator
from circlekit.ir.text.syntax import (
    Arguments,
    AttributeNode,
    Call,
    Constant,
    Literal,
    OperandNode,
    Symbol,
    TypeNode,
    ValueName,
)
from circlekit.ir.text.type_syntax import TypeSpec, name_of, read_type

OPAQUE = "Opaque"
"""The name, in the text form, of an operator without a declaration."""

_UNDECLARED = Operand(())  # stands for each operand of a class that declares no operands (Opaque)
_UNDECLARED.name = "operand"  # part of the name of a constant, such as %y/operand

_OTHER_ENTRIES: dict[str, tuple[type, str]] = {
    "version": (int, "an integer"),
    "extra": (dict, "{field: value, ...}"),
    "code": (str, "a string"),
    "custom_code": (str, "a string"),
    "options": (dict, "{field: value, ...}"),
}
"""Entries in braces that are no attributes, with the type of each and a description of the type for errors.

``version`` and ``extra`` are for every operator, the others for Opaque only.
"""


@counted_memory()
def parse_model(text: str, label: str = "text", resolve: Resolve | None = None) -> Model:
    """Return the model that ``text`` describes.

    ``circlekit.ops`` must have been imported, because it declares the operators.  ``label``: the name of the
    text in errors, such as its path, and the ``source`` of the model.  ``resolve``: reads constants from
    files; by default a text that refers to a file is an error.  Types in the text are not compared with shape
    rules: see ``ir.shape_inference.check_shapes``.

    Raise

    - ParseError, with the place, for an invalid text, and if the arrays of fillers exceed the memory limit
      (arrays whose elements are in the text do not count);
    - ModelError or UnsupportedError if the text leaves out the dtype or shape of a result, and the operator
      does not fit its operands (mostly ShapeError) or the type cannot be inferred (ParseError for an Opaque);
    - the errors of ``resolve``; a ModelError becomes a ParseError, with the place.
    """
    source = Source(text, label)
    document = parse_document(source)
    if not document.graphs:
        source.fail("the text has no graph")
    model = document.model
    model.source = label
    nodes: dict[str, GraphNode] = {}
    for node in document.graphs:
        if node.name.text in nodes:
            source.fail(f"graph {node.name.text} is defined twice", node.name)
        nodes[node.name.text] = node
    graphs = {name: Graph(name) for name in nodes}
    model.graphs = list(graphs.values())
    values: dict[str, dict[str, Value]] = {}  # by graph and name in the text
    # called graphs first: the shape rule of a caller reads the types of their outputs
    for node in postorder(document.graphs, lambda n: [nodes[r] for r in n.references() if r in nodes]):
        builder = _GraphBuilder(source, node, graphs, resolve)
        builder.build()
        values[node.name.text] = builder.values
    model.signatures = [_signature(source, s, graphs, values) for s in document.signatures]
    return model


def _signature(
    source: Source, node: SignatureNode, graphs: dict[str, Graph], values: dict[str, dict[str, Value]]
) -> Signature:
    if node.graph.text not in graphs:
        source.fail(
            f"no graph is named @{node.graph.text}" + did_you_mean(node.graph.text, graphs), node.graph
        )
    by_name = values[node.graph.text]
    sides: list[dict[str, Value]] = []
    for ports in (node.inputs, node.outputs):
        side: dict[str, Value] = {}
        for key, token in ports:
            if token.text not in by_name:
                hint = did_you_mean(token.text, by_name)
                source.fail(f"@{node.graph.text} has no %{token.text}{hint}", token)
            if key in side:
                source.fail(f"{key} is given twice", token)
            side[key] = by_name[token.text]
        sides.append(side)
    return Signature(node.key.text, graphs[node.graph.text], *sides)


class _GraphBuilder:
    """Fills one graph: resolves names, makes constants, checks and creates operators.

    ``graphs``: all graphs of the text by name.  ``operators``: the operator classes by their names in the
    text.  ``values``: the values of the graph by their names in the text.  ``inline``: the constants that
    stand for literal operands; the text has no names for them.  ``order``: all values in order of definition.
    ``renamed``: pairs of a value and the name from ``named(...)`` that it gets in the model.
    """

    def __init__(
        self, source: Source, node: GraphNode, graphs: Mapping[str, Graph], resolve: Resolve | None
    ) -> None:
        self.source = source
        self.node = node
        self.graphs = graphs
        self.resolve = resolve
        self.graph = graphs[node.name.text]
        self.operators = {cls.__name__: cls for cls in REGISTRY.values()}
        self.values: dict[str, Value] = {}
        self.order: list[Value] = []
        self.renamed: list[tuple[Value, str]] = []
        self.inline: list[Value] = []

    def build(self) -> None:
        self.graph.inputs = [
            self.values[node.token.text]  # an input that is listed a second time
            if node.type is None and node.token.text in self.values
            else self._declare(node.token, node.type)
            for node in self.node.inputs
        ]
        for statement in self.node.statements:
            if isinstance(statement, Constant):
                self._constant(statement)
            elif isinstance(statement, ValueNode):
                self._declare(statement.token, statement.type)
            else:
                self._call(statement)
        self.graph.outputs = [self.value(token) for token in self.node.outputs]
        if self.node.table is not None:  # the values in the order of the file; []: in the order of the text
            listed = [self.value(token) for token in self.node.table]
            self.graph.table = listed or list(self.order)
        fail = self.source.fail_at(self.node.name)
        if self.node.extra is not None:
            self.graph.extra = tree_of(self.node.extra, fail, self.values)
        for value in self.order:  # the details of a quantization may refer to values that are defined later
            if value.quantization is not None and value.quantization.details:
                details = {
                    key: tree_of(item, fail, self.values) if type(item) is ValueName else item
                    for key, item in value.quantization.details.items()
                }
                value.quantization = replace(value.quantization, details=details)
        self._set_names()

    def _set_names(self) -> None:
        """Make the names of inline constants unique among all names; apply ``named(...)``."""
        taken = dict.fromkeys([*self.values, *(name for _, name in self.renamed)], 0)
        for value in self.inline:
            value.name = unique_name(value.name, taken)
        for value, name in self.renamed:
            value.name = name
        if self.node.named is not None:
            self.graph.name = name_of(self.node.named, self.source.fail_at(self.node.named.token))

    # -- values --------------------------------------------------------------------------------

    def value(self, token: Token) -> Value:
        """Return the value that ``token`` names."""
        if token.kind != "value":
            self.source.fail(f"a value of a graph is written %{token.text}", token)
        value = self.values.get(token.text)
        if value is None:
            hint = did_you_mean(token.text, self.values)
            self.source.fail(f"%{token.text} is not defined before this place{hint}", token)
        return value

    def _define(self, token: Token, value: Value, spec: TypeSpec | None) -> None:
        """Record ``value`` under its name in the text, and give it the type that the text states.

        ``token``: the name.  ``spec``: the type; None if the text states none.
        """
        if token.kind != "value":
            self.source.fail(f"a value of a graph is written %{token.text}", token)
        if token.text in self.values:
            self.source.fail(f"%{token.text} is defined twice", token)
        self.values[token.text] = value
        self.order.append(value)
        if spec is not None:
            spec.apply_to(value)
            if spec.name is not None:
                self.renamed.append((value, spec.name))

    def _declare(self, token: Token, type_: TypeNode | None) -> Value:
        """Return a new value with a type only, such as an input or a variable."""
        if type_ is None:
            self.source.fail(f"%{token.text} needs a type, such as f32[1,8]", token)
        spec = read_type(type_, self.source)
        if spec.dtype is None or not spec.has_shape:
            self.source.fail("expected a dtype and a shape, such as f32[1,8] or f32[*]", type_.token)
        value = Value(token.text, spec.dtype, spec.shape)
        self._define(token, value, spec)
        return value

    def _constant(self, node: Constant) -> None:
        spec = read_type(node.type, self.source)
        name = node.result.text
        fail = self.source.fail_at(node.token)
        if spec.dtype is None and isinstance(node.payload, Arguments | Symbol):  # a filler, or bytes
            fail("the type needs a dtype here, such as f32[2,3]")
        dtype = spec.dtype or literal_dtype(node.payload, fail)
        seed_names = (self.node.name.text, name)  # a filler takes its default seed from these
        shape, data = constant_array(node.payload, dtype, spec, seed_names, self.resolve, fail)
        self._define(node.result, Value(name, dtype, shape, data), spec)

    # -- operators -----------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        """Create an operator; infer the types of its results unless the text states all of them."""
        token = call.kinds[0]  # the name of the operator
        if len(call.kinds) > 1 or call.like is not None:
            self.source.fail("alternatives and `like` are allowed in pictures only", call.kinds[-1])
        cls = OpaqueOp if token.text == OPAQUE else self._operator(token)
        operands = self._operands(call, cls)
        if cls is not OpaqueOp:
            for _, message in arity_faults(cls, operands, len(call.results)):
                self.source.fail(f"{token.text}: {message}", token)
        attributes = self._attributes(call, cls)
        types = [read_type(t, self.source) for t in call.types]
        if types and len(types) != len(call.results):
            message = f"expected {counted(len(call.results), 'type')}, one for each result, got {len(types)}"
            self.source.fail(message, call.types[0].token)
        stated = [Value("", t.dtype, t.shape) for t in types if t.dtype is not None and t.has_shape]
        # a call that names no results lacks no type.  Types are inferred nevertheless, because only the shape
        # rule knows whether the operator has results (an Opaque has no shape rule)
        is_typed = len(stated) == len(call.results) and (bool(types) or cls is OpaqueOp)
        if cls is OpaqueOp and not is_typed:
            self.source.fail(f"the results of {OPAQUE} need types, they cannot be inferred", token)
        try:
            op = cls(*operands, results=stated if is_typed else None, **attributes)
        except CirclekitError as error:  # raise the same error with the place in the text
            located = self.source.error_at(token.at, error.message)
            raise type(error)(located.message, *error.where, *located.where) from None
        if len(op.results) != len(call.results):
            message = (
                f"{token.text} has {counted(len(op.results), 'result')}, the text names {len(call.results)}"
            )
            self.source.fail(message, token)
        for index, (result, value) in enumerate(zip(call.results, op.results, strict=True)):
            value.name = result.text
            # a dtype or shape in the text replaces the inferred one
            self._define(result, value, types[index] if types else None)
        op.extra = self._other_entry(call, "extra") or {}
        self.graph.append(op)
        op.version = self._other_entry(call, "version")

    def _operator(self, token: Token) -> type[Op]:
        """Return the operator class that ``token`` names."""
        cls = self.operators.get(token.text)
        if cls is None:
            hint = suggest_operator(token.text, self.operators)
            if token.text.lower() == "custom":
                hint = f'; a custom operator is {OPAQUE}(...) {{code: "CUSTOM", custom_code: "NAME"}}'
            if not self.operators:
                hint = "; none is declared yet, `import circlekit.ops` declares them"
            self.source.fail(f"no operator is named {token.text}{hint}", token)
        return cls

    def _operands(self, call: Call, cls: type[Op]) -> list[Value | None]:
        """Return the operands of ``call``.

        A literal becomes a constant, named after the first result and the operand, such as ``y/lhs``.
        """
        declared = cls.operands or (_UNDECLARED,)  # the last one may be variadic
        specs = [declared[min(index, len(declared) - 1)] for index in range(len(call.operands))]
        operands = [self._reference(node) for node in call.operands]
        pairs = list(zip(call.operands, specs, strict=True))
        of_literals = {spec for node, spec in pairs if node.literal is not None}
        # for the declaration of each literal: the dtype of an operand whose declaration has the same dtypes;
        # at this time ``operands`` has None for each literal
        alike = {spec: dtype_alike(cls, spec, operands, specs) for spec in of_literals}
        for index, (node, spec) in enumerate(pairs):
            if node.literal is not None:
                fail = self.source.fail_at(node.token)
                owner = call.results[0] if call.results else call.kinds[0]
                array = inline_array(node.literal, spec.dtypes, alike[spec], fail)
                value = operands[index] = Value.constant(f"{owner.text}/{spec.name}", array)
                self.inline.append(value)
                self.order.append(value)
        return operands

    def _reference(self, node: OperandNode) -> Value | None:
        """Return the value of an operand; None for ``none`` and for a literal."""
        if node.optional or node.const or node.type is not None:
            self.source.fail("types and ? after an operand are allowed in pictures only", node.token)
        if node.name is None or (node.token.kind == "name" and node.name == "none"):
            return None
        return self.value(node.token)

    # -- braces --------------------------------------------------------------------------------

    def _attributes(self, call: Call, cls: type[Op]) -> dict[str, Any]:
        """Return the keyword arguments for the constructor of ``cls``."""
        specs = {a.name: a for a in cls.attributes}
        attributes = {}
        allowed = {*specs, *(_OTHER_ENTRIES if cls is OpaqueOp else ("version", "extra"))}
        for name, node in call.attributes.items():
            if name not in allowed:
                known = [*specs, *(_OTHER_ENTRIES if cls is OpaqueOp else ())]
                hint = did_you_mean(name, known) or f"; it has {', '.join(known) or 'none'}"
                self.source.fail(f"{call.kinds[0].text} has no attribute {name}{hint}", node.token)
            if name in specs:
                fail = self.source.fail_at(node.token)
                attributes[name] = attribute_of(specs[name], self._single(node), self.graphs, fail)
        if cls is OpaqueOp:
            if "code" not in call.attributes:
                self.source.fail(f'{OPAQUE} needs {{code: "NAME"}}', call.kinds[0])
            attributes = {name: self._other_entry(call, name) for name in ("code", "custom_code")}
            attributes["option_tree"] = self._other_entry(call, "options")
        return attributes

    def _other_entry(self, call: Call, name: str) -> Any:
        """Return the value of an entry of ``_OTHER_ENTRIES``; None if it is absent."""
        node = call.attributes.get(name)
        if node is None:
            return None
        kind, description = _OTHER_ENTRIES[name]
        fail = self.source.fail_at(node.token)
        data = tree_of(self._single(node), fail, self.values, self.graphs)
        if type(data) is not kind:
            fail(f"{name} must be {description}")
        return data

    def _single(self, node: AttributeNode) -> Literal:
        """Return the only literal of an attribute; only a picture may have alternatives."""
        if len(node.choices) > 1 or node.bind is not None:
            self.source.fail("`a | b` and `= name` after a value are allowed in pictures only", node.token)
        return node.choices[0]
