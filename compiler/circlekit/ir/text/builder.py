# SPDX-License-Identifier: Apache-2.0
"""One graph of the text form -> Graph: names are resolved, constants made, operators checked and built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from circlekit.errors import CirclekitError, near_miss
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, OpaqueOp, Operand
from circlekit.ir.text.attribute_literals import attribute_of
from circlekit.ir.text.constant_data import Resolve, constant_array
from circlekit.ir.text.document import Declaration, GraphNode
from circlekit.ir.text.lexer import Source, Token
from circlekit.ir.text.literals import Fail, array_of, literal_dtype, tree_of
from circlekit.ir.text.syntax import AttributeNode, Call, Constant, Literal, OperandNode, TypeNode, ValueName
from circlekit.ir.text.type_syntax import TypeSpec, name_of, read_type
from circlekit.ir.value import Value


@dataclass(eq=False, repr=False)
class Scope:
    """What the graphs of one text share.  ``operators``: by class name; ``graphs``: by label."""

    source: Source
    operators: Mapping[str, type[Op]]
    graphs: Mapping[str, Graph]
    resolve: Resolve | None


OPAQUE = "Opaque"
COMMON = ("version", "extra")
"""What every operator may have in its braces besides its attributes."""


class GraphBuilder:
    """Fills one graph.  ``values``: by the text's names; ``order``: all, in the order of their making."""

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
        self.graph.inputs = [self._input(node) for node in self.node.inputs]
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
        if self.node.extra is not None:
            self.graph.extra = tree_of(self.node.extra, self._fail_at(self.node.name), self.values)
        for value in self.order:
            self._link_details(value)
        self._set_names()

    def _link_details(self, value: Value) -> None:
        """Put values in the place of the names in the details of a quantization, now that all are known."""
        quantization = value.quantization
        if quantization is None or not quantization.details:
            return
        details = {k: self._detail(x) for k, x in quantization.details.items()}
        value.quantization = replace(quantization, details=details)

    def _detail(self, item: Any) -> Any:
        return tree_of(item, self._fail_at(self.node.name), self.values) if type(item) is ValueName else item

    def _set_names(self) -> None:
        """Names that differ from the text's, and, after all others are known, names for inline constants."""
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
            self.graph.name = name_of(self.node.named, self._fail_at(self.node.named.token))

    def _fail_at(self, token: Token) -> Fail:
        def fail(message: str) -> NoReturn:
            self.source.fail(message, token)

        return fail

    # -- values --------------------------------------------------------------------------------

    def value(self, token: Token) -> Value:
        """The value that ``token`` names."""
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

    def _input(self, node: Declaration) -> Value:
        if node.type is None and node.token.text in self.values:
            return self.values[node.token.text]
        return self._declare(node.token, node.type)

    def _declare(self, token: Token, type_: TypeNode | None) -> Value:
        if type_ is None:
            self.source.fail(f"%{token.text} needs a type, such as f32[1,8]", token)
        spec = read_type(type_, self.source)
        if spec.dtype is None or not spec.has_shape:
            self.source.fail("a dtype and a shape are wanted here, such as f32[1,8] or f32[*]", type_.token)
        value = spec.dress(Value(token.text, spec.dtype, spec.shape))
        self._define(token, value, spec)
        return value

    def _constant(self, node: Constant) -> None:
        spec = read_type(node.type, self.source)
        name = node.result.text
        seed_names = (self.node.name.text, name)
        fail = self._fail_at(node.token)
        dtype = spec.dtype or literal_dtype(node.payload, fail)
        shape, data = constant_array(node.payload, dtype, spec, seed_names, self.scope.resolve, fail)
        self._define(node.result, spec.dress(Value(name, dtype, shape, data)), spec)

    # -- operators -----------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        if len(call.kinds) > 1 or call.like is not None:
            self.source.fail("alternatives and `like` are for pictures", call.kinds[-1])
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
                near = "; none is declared yet, `import circlekit.ops` does that"
            self.source.fail(f"no operator is called {token.text}{near}", token)
        return cls

    def _declared(self, call: Call, cls: type[Op]) -> Op:
        operands = self._operands(call, cls)
        attributes = {}
        specs = {a.name: a for a in cls.attributes}
        for name, node in call.attributes.items():
            if name in COMMON:
                continue
            if name not in specs:
                known = near_miss(name, specs) or f"; it has {', '.join(specs) or 'none'}"
                self.source.fail(f"{cls.__name__} has no attribute {name}{known}", node.token)
            fail = self._fail_at(node.token)
            attributes[name] = attribute_of(specs[name], self._single(node), self.scope.graphs, fail)
        types = self._types(call)
        if types and all(t.is_complete for t in types):
            count = len(cls.result_names)
            if len(types) != count and not cls.variadic_results:
                wanted = f"{count} results ({', '.join(cls.result_names)})"
                self.source.fail(f"{cls.__name__} has {wanted}, found {len(types)}", call.kinds[0])
            return cls(*operands, results=self._results(call, types), **attributes)
        return self._inferred(call, partial(cls, *operands, **attributes), types)

    def _operands(self, call: Call, cls: type[Op]) -> list[Value | None]:
        specs = cls.operands
        least = sum(not s.optional and not s.variadic for s in specs)
        most = len(call.operands) if specs and specs[-1].variadic else len(specs)
        if not least <= len(call.operands) <= most:
            names = ", ".join(s.name + ("?" if s.optional else "..." if s.variadic else "") for s in specs)
            wanted = str(least) if least == len(specs) else f"from {least} to {len(specs)}"
            self.source.fail(
                f"{cls.__name__} takes {wanted} operands ({names}), found {len(call.operands)}", call.kinds[0]
            )
        by_index = [specs[min(i, len(specs) - 1)] for i in range(len(call.operands))]
        named = [self._reference(node) for node in call.operands]
        # what an operator hands on to its graphs can be of any kinds, whatever they share as operands
        alike = [] if any(a.is_graph for a in cls.attributes) else named
        pairs = zip(call.operands, named, by_index, strict=True)
        return [
            v if n.literal is None else self._inline(call, n, s, self._peer(s, alike, by_index))
            for n, v, s in pairs
        ]

    def _reference(self, node: OperandNode) -> Value | None:
        """The value of an operand; None for ``none`` and for a literal."""
        if node.optional or node.const or node.type is not None:
            self.source.fail("types and ? behind an operand are for pictures", node.token)
        if node.name is None or (node.token.kind == "name" and node.name == "none"):
            return None
        if node.token.kind != "value":
            self.source.fail(f"a value of a graph is written %{node.name}", node.token)
        return self.value(node.token)

    @staticmethod
    def _peer(spec: Operand, named: Sequence[Value | None], specs: Sequence[Operand]) -> DType | None:
        """The dtype of the first operand that is no literal and is declared like ``spec``."""
        for value, other in zip(named, specs, strict=False):
            if value is not None and other.dtypes == spec.dtypes:
                return value.dtype
        return None

    def _inline(self, call: Call, node: OperandNode, spec: Operand | None, peer: DType | None) -> Value:
        """A constant written in the place of an operand."""
        fail = self._fail_at(node.token)
        assert node.literal is not None  # the caller looked
        dtype = _choose_dtype(node.literal, spec.dtypes if spec else (), peer, fail)
        array = array_of(node.literal, dtype, None, fail)
        base = call.results[0].text if call.results else call.kinds[0].text
        base = f"{base}/{spec.name if spec else 'operand'}"
        value = Value(base, dtype, array.shape, array)
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
        """Build with inferred results, then let the types written, if any, have their say."""
        token = call.kinds[0]
        try:
            op = make()
        except CirclekitError as error:
            shown = self.source.error_at(token.at, error.message)
            raise type(error)(shown.message, *error.where, *shown.where) from None
        if len(op.results) != len(call.results):
            self.source.fail(f"{token.text} has {len(op.results)} results, found {len(call.results)}", token)
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
            self.source.fail("alternatives and names of attributes are for pictures", node.token)
        return node.choices[0]

    def _specials(self, call: Call) -> dict[str, Any]:
        """``version`` and ``extra``."""
        found = {}
        for name in COMMON:
            if name in call.attributes:
                node = call.attributes[name]
                found[name] = tree_of(self._single(node), self._fail_at(node.token), self.values)
                wanted = int if name == "version" else dict
                if type(found[name]) is not wanted:
                    self.source.fail(f"{name} must be a {'number' if wanted is int else 'tree'}", node.token)
        return found

    def _opaque(self, call: Call) -> Op:
        trees = {}
        for name, node in call.attributes.items():
            if name not in ("code", "custom_code", "options", *COMMON):
                self.source.fail(f"{OPAQUE} has no attribute {name}", node.token)
            if name not in COMMON:
                trees[name] = tree_of(self._single(node), self._fail_at(node.token), graphs=self.scope.graphs)
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


def _choose_dtype(literal: Literal, allowed: Sequence[DType], peer: DType | None, fail: Fail) -> DType:
    """See ``ir.parser`` for the rules."""
    own = literal_dtype(literal, fail)
    candidates = [*([peer] if peer is not None else []), *allowed] if allowed else [peer or own, own]
    for dtype in candidates:
        if _holds(dtype, own):
            return dtype
    return candidates[0]


def _holds(dtype: DType, own: DType) -> bool:
    """Whether literals of kind ``own`` (f32, i32, bool) can be of ``dtype``."""
    if dtype.numpy is None:
        return False
    kinds = {DType.FLOAT32: "f", DType.INT32: "iuf", DType.BOOL: "b"}[own]
    return np.dtype(dtype.numpy).kind in kinds
