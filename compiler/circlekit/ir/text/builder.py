# SPDX-License-Identifier: Apache-2.0
"""Build a Graph from its syntax tree: resolve names, make constants, check and create operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from circlekit.errors import CirclekitError, near_miss
from circlekit.ir.core import Graph, Op, Value
from circlekit.ir.declaration import Operand
from circlekit.ir.dtypes import DType
from circlekit.ir.op import OpaqueOp
from circlekit.ir.text.constant_data import Resolve, constant_array, dtype_alike, inline_array
from circlekit.ir.text.document import Declaration, GraphNode
from circlekit.ir.text.lexer import Source, Token
from circlekit.ir.text.literal_parsing import attribute_of, literal_dtype, tree_of
from circlekit.ir.text.syntax import AttributeNode, Call, Constant, Literal, OperandNode, TypeNode, ValueName
from circlekit.ir.text.type_syntax import TypeSpec, name_of, read_type

OPAQUE = "Opaque"
"""How the text form names an operator without a declaration."""

COMMON = ("version", "extra")
"""What the braces of every operator may have beside its attributes."""


@dataclass(eq=False, repr=False)
class Scope:
    """What the graphs of one text share.  ``operators``: by class name; ``graphs``: by label."""

    source: Source
    operators: Mapping[str, type[Op]]
    graphs: Mapping[str, Graph]
    resolve: Resolve | None


class GraphBuilder:
    """Fills one graph.  ``values``: by their names in the text; ``order``: in the order of definition."""

    def __init__(self, scope: Scope, node: GraphNode, graph: Graph) -> None:
        self.scope = scope
        self.source = scope.source
        self.node = node
        self.graph = graph
        self.values: dict[str, Value] = {}
        self.order: list[Value] = []
        self.renamed: list[tuple[Value, str]] = []
        self.nameless: list[tuple[Value, str]] = []

    def build(self) -> None:
        self.graph.inputs = [
            self.values[node.token.text]
            if node.type is None and node.token.text in self.values
            else self._declare(node.token, node.type)
            for node in self.node.inputs
        ]
        for statement in self.node.statements:
            if isinstance(statement, Constant):
                self._constant(statement)
            elif isinstance(statement, Declaration):
                self._declare(statement.token, statement.type)
            else:
                self._call(statement)
        self.graph.outputs = [self.value(token) for token in self.node.outputs]
        if self.node.table is not None:
            listed = [self.value(token) for token in self.node.table]
            self.graph.table = listed or list(self.order)
        fail = self.source.fail_at(self.node.name)
        if self.node.extra is not None:
            self.graph.extra = tree_of(self.node.extra, fail, self.values)
        for value in self.order:  # names in the details of quantizations, now that all are known
            if value.quantization is not None and value.quantization.details:
                details = {
                    key: tree_of(item, fail, self.values) if type(item) is ValueName else item
                    for key, item in value.quantization.details.items()
                }
                value.quantization = replace(value.quantization, details=details)
        self._set_names()

    def _set_names(self) -> None:
        """Name inline constants, now that all other names are known, and apply ``named(...)``."""
        taken = set(self.values)
        for value, base in self.nameless:
            name, count = base, 0
            while name in taken:
                count += 1
                name = f"{base}_{count}"
            taken.add(name)
            value.name = name
        for value, name in self.renamed:
            value.name = name
        if self.node.named is not None:
            self.graph.name = name_of(self.node.named, self.source.fail_at(self.node.named.token))

    # -- values --------------------------------------------------------------------------------

    def value(self, token: Token) -> Value:
        """Return the value that ``token`` names."""
        found = self.values.get(token.text)
        if found is None:
            near = near_miss(token.text, self.values)
            self.source.fail(f"%{token.text} is not defined before this place{near}", token)
        return found

    def _define(self, token: Token, value: Value, spec: TypeSpec | None = None) -> None:
        if token.kind != "value":
            self.source.fail(f"a value of a graph is written %{token.text}", token)
        if token.text in self.values:
            self.source.fail(f"%{token.text} is defined twice", token)
        self.values[token.text] = value
        self.order.append(value)
        if spec is not None and spec.name is not None:
            self.renamed.append((value, spec.name))

    def _declare(self, token: Token, type_: TypeNode | None) -> Value:
        if type_ is None:
            self.source.fail(f"%{token.text} needs a type, such as f32[1,8]", token)
        spec = read_type(type_, self.source)
        if spec.dtype is None or not spec.has_shape:
            self.source.fail("expected a dtype and a shape, such as f32[1,8] or f32[*]", type_.token)
        value = spec.dress(Value(token.text, spec.dtype, spec.shape))
        self._define(token, value, spec)
        return value

    def _constant(self, node: Constant) -> None:
        spec = read_type(node.type, self.source)
        name = node.result.text
        seed_names = (self.node.name.text, name)
        fail = self.source.fail_at(node.token)
        dtype = spec.dtype or literal_dtype(node.payload, fail)
        shape, data = constant_array(node.payload, dtype, spec, seed_names, self.scope.resolve, fail)
        self._define(node.result, spec.dress(Value(name, dtype, shape, data)), spec)

    # -- operators -----------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        if len(call.kinds) > 1 or call.like is not None:
            self.source.fail("alternatives and `like` are allowed in pictures only", call.kinds[-1])
        token = call.kinds[0]
        op = self._opaque(call) if token.text == OPAQUE else self._declared(call, self._operator(token))
        specials = self._specials(call)
        op.extra = specials.get("extra") or {}
        self.graph.append(op)
        op.version = specials.get("version")

    def _operator(self, token: Token) -> type[Op]:
        cls = self.scope.operators.get(token.text)
        if cls is None:
            near = near_miss(token.text, self.scope.operators)
            if token.text.lower() == "custom":
                near = f'; a custom operator is {OPAQUE}(...) {{code: "CUSTOM", custom_code: "NAME"}}'
            if not self.scope.operators:
                near = "; none is declared yet, `import circlekit.ops` declares them"
            self.source.fail(f"no operator is named {token.text}{near}", token)
        return cls

    def _declared(self, call: Call, cls: type[Op]) -> Op:
        operands = self._operands(call, cls)
        attributes = self._attributes(call, cls)
        types = self._types(call)
        if types and all(t.is_complete for t in types):
            count = len(cls.result_names)
            if len(types) != count and not cls.variadic_results:
                expected = f"{count} results ({', '.join(cls.result_names)})"
                self.source.fail(f"{cls.__name__} has {expected}, got {len(types)}", call.kinds[0])
            return cls(*operands, results=self._results(call, types), **attributes)
        return self._inferred(call, partial(cls, *operands, **attributes), types)

    def _attributes(self, call: Call, cls: type[Op]) -> dict[str, Any]:
        specs = {a.name: a for a in cls.attributes}
        attributes = {}
        for name, node in call.attributes.items():
            if name in COMMON:
                continue
            if name not in specs:
                known = near_miss(name, specs) or f"; it has {', '.join(specs) or 'none'}"
                self.source.fail(f"{cls.__name__} has no attribute {name}{known}", node.token)
            fail = self.source.fail_at(node.token)
            attributes[name] = attribute_of(specs[name], self._single(node), self.scope.graphs, fail)
        return attributes

    def _operands(self, call: Call, cls: type[Op]) -> list[Value | None]:
        self._check_count(call, cls)
        last = len(cls.operands) - 1
        specs = [cls.operands[min(i, last)] for i in range(len(call.operands))]
        values = [self._reference(node) for node in call.operands]
        operands = list(values)
        for index, (node, spec) in enumerate(zip(call.operands, specs, strict=True)):
            if node.literal is not None:
                alike = dtype_alike(cls, spec, values, specs)
                operands[index] = self._inline(call, node, spec, alike)
        return operands

    def _check_count(self, call: Call, cls: type[Op]) -> None:
        """Fail unless the call has as many operands as the declaration allows."""
        specs = cls.operands
        least = sum(not s.optional and not s.variadic for s in specs)
        most = len(call.operands) if specs and specs[-1].variadic else len(specs)
        if not least <= len(call.operands) <= most:
            names = ", ".join(s.name + ("?" if s.optional else "..." if s.variadic else "") for s in specs)
            expected = str(least) if least == len(specs) else f"from {least} to {len(specs)}"
            message = f"{cls.__name__} takes {expected} operands ({names}), got {len(call.operands)}"
            self.source.fail(message, call.kinds[0])

    def _reference(self, node: OperandNode) -> Value | None:
        """Return the value of an operand; None for ``none`` and for a literal."""
        if node.optional or node.const or node.type is not None:
            self.source.fail("types and ? after an operand are allowed in pictures only", node.token)
        if node.name is None or (node.token.kind == "name" and node.name == "none"):
            return None
        if node.token.kind != "value":
            self.source.fail(f"a value of a graph is written %{node.name}", node.token)
        return self.value(node.token)

    def _inline(self, call: Call, node: OperandNode, spec: Operand | None, alike: DType | None) -> Value:
        """Make the constant of a literal in the place of an operand."""
        assert node.literal is not None  # checked by the caller
        array = inline_array(
            node.literal, spec.dtypes if spec else (), alike, self.source.fail_at(node.token)
        )
        owner = call.results[0] if call.results else call.kinds[0]
        base = f"{owner.text}/{spec.name if spec else 'operand'}"
        value = Value.constant(base, array)
        self.nameless.append((value, base))
        self.order.append(value)
        return value

    def _types(self, call: Call) -> list[TypeSpec]:
        if call.types and len(call.types) != len(call.results):
            message = f"{len(call.results)} results have {len(call.types)} types"
            self.source.fail(message, call.types[0].token)
        return [read_type(t, self.source) for t in call.types]

    def _results(self, call: Call, types: Sequence[TypeSpec]) -> list[Value]:
        results = []
        for token, spec in zip(call.results, types, strict=True):
            assert spec.dtype is not None  # complete
            value = spec.dress(Value(token.text, spec.dtype, spec.shape))
            self._define(token, value, spec)
            results.append(value)
        return results

    def _inferred(self, call: Call, make: Callable[[], Op], types: Sequence[TypeSpec]) -> Op:
        """Create an operator with inferred results; parts of types that are written override them."""
        token = call.kinds[0]
        try:
            op = make()
        except CirclekitError as error:
            shown = self.source.error_at(token.at, error.message)
            raise type(error)(shown.message, *error.where, *shown.where) from None
        if len(op.results) != len(call.results):
            self.source.fail(f"{token.text} has {len(op.results)} results, got {len(call.results)}", token)
        for index, (result, value) in enumerate(zip(call.results, op.results, strict=True)):
            spec = types[index] if types else None
            value.name = result.text
            if spec is not None:
                value.dtype = spec.dtype or value.dtype
                value.shape = spec.shape if spec.has_shape else value.shape
                spec.dress(value)
            self._define(result, value, spec)
        return op

    # -- braces --------------------------------------------------------------------------------

    def _single(self, node: AttributeNode) -> Literal:
        if len(node.choices) > 1 or node.bind is not None:
            self.source.fail("alternatives and names of attributes are allowed in pictures only", node.token)
        return node.choices[0]

    def _specials(self, call: Call) -> dict[str, Any]:
        """Return ``version`` and ``extra``."""
        found = {}
        for name, kind, what in (("version", int, "a number"), ("extra", dict, "a tree")):
            if name in call.attributes:
                node = call.attributes[name]
                found[name] = tree_of(self._single(node), self.source.fail_at(node.token), self.values)
                if type(found[name]) is not kind:
                    self.source.fail(f"{name} must be {what}", node.token)
        return found

    def _opaque(self, call: Call) -> Op:
        trees = {}
        for name, node in call.attributes.items():
            if name not in ("code", "custom_code", "options", *COMMON):
                self.source.fail(f"{OPAQUE} has no attribute {name}", node.token)
            if name not in COMMON:
                trees[name] = tree_of(
                    self._single(node), self.source.fail_at(node.token), graphs=self.scope.graphs
                )
        code, custom = trees.get("code"), trees.get("custom_code")
        options = trees.get("options")
        if not isinstance(code, str) or not isinstance(custom, str | None):
            self.source.fail(f'{OPAQUE} needs {{code: "NAME"}}, and custom_code is a text', call.kinds[0])
        if not isinstance(options, dict | None):
            self.source.fail("options must be {field: value, ...}", call.attributes["options"].token)
        types = self._types(call)
        if len(types) != len(call.results) or not all(t.is_complete for t in types):
            self.source.fail(f"the results of {OPAQUE} need types, they cannot be inferred", call.kinds[0])
        operands = [
            self._inline(call, n, None, None) if n.literal is not None else self._reference(n)
            for n in call.operands
        ]
        results = self._results(call, types)
        return OpaqueOp(*operands, code=code, results=results, custom_code=custom, option_tree=options)
