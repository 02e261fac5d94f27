# SPDX-License-Identifier: Apache-2.0
"""Parse pictures: small graphs written as text, checked against the declarations of operators.

A rewrite replaces what matches its picture ``before`` by its picture ``after``.  Names without a producer in
the picture are its inputs.  The grammar is that of ``ir.text.syntax``.  Examples:

    w: const f32[*, O, _, 3]    a constant of dtype f32; every O is the same known size, ``O|1`` is O or 1,
                                and _ is any size, known or not; a leading * is any number of ones, and a
                                scalar then matches as if all its dimensions were 1
    b?: const                   an operand that may be absent; if a node names several operators, as
                                Conv2D|Add, some of them may have no such operand
    0.5   [0, 2, 3, 1]          a constant with these elements (a number matches any shape of one element)
    {act: any = a}              any value, to which the name ``a`` is given;  {act: RELU|RELU6} one of these
    {like y}                    in ``after``: copy to this node the attributes of the operator that produces
                                ``y`` in ``before``, except those that the node lacks or states itself; a
                                node Relu|Relu6 {like y} becomes a Relu or a Relu6, as that operator is
    Custom("Erf", x)            in ``before``: an operator with this custom code; "A|B" is one of two codes

``after`` says exactly what is created: one operator (or ``like``), one value of each attribute, and operands
without ``const`` and types.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import circlekit.ops  # noqa: F401  # declares the operators that a picture may name
from circlekit.errors import counted, did_you_mean
from circlekit.ir.dtypes import BY_SHORT, DType, f64
from circlekit.ir.op import REGISTRY, Attribute, Op, OpaqueOp
from circlekit.ir.text.lexer import Source, Token
from circlekit.ir.text.literal_parsing import array_of, attribute_of
from circlekit.ir.text.operator_names import suggest_operator
from circlekit.ir.text.syntax import AttributeNode, Call, Constant, OperandNode, Symbol, parse_statement

ANY = Symbol("any")
CUSTOM = "Custom"
DIMENSION = re.compile(r"\d+|_|\*|[A-Za-z]\w*(\|\d+)?")
"""A dimension of a picture as text."""


class OperandPattern(NamedTuple):
    """One operand: a ``name``, or else a ``literal``, the elements of a constant.

    ``optional``: the operand may be absent.  ``const``: it must be constant.  ``dtype``, ``dims``: its type;
    None if any dtype or any shape matches.  A dimension is a number, or a text such as "O", "_" or "*".
    """

    name: str | None
    literal: Any = None
    optional: bool = False
    const: bool = False
    dtype: DType | None = None
    dims: tuple[int | str, ...] | None = None

    def type_text(self) -> str:
        """Return the type as it is written in the picture."""
        dims = "" if self.dims is None else "[" + ",".join(map(str, self.dims)) + "]"
        return f"{'const ' if self.const else ''}{self.dtype.short if self.dtype else ''}{dims}".strip()


class AttributePattern(NamedTuple):
    """One attribute.  ``choices``: the values that match, None for any.  ``bind``: a name for the value.

    In ``after``, ``choices`` has one element: the value, or a Symbol, a name that stands for the value.
    """

    choices: tuple[Any, ...] | None
    bind: str | None = None


@dataclass(eq=False, repr=False)
class Node:
    """One operator of a picture.

    ``kinds``: the operator classes that match.  ``results``: the names of the results.
    ``attributes``: the attributes that the picture mentions, by name.
    ``like``: the name after the word ``like``, or None.
    ``carried``: attributes that match with any value although the picture does not mention them: those that
    ``after`` copies; in a picture of ``query``, all of them.
    ``custom``: the custom code, or several separated by ``|``.
    """

    kinds: tuple[type[Op], ...]
    results: tuple[str, ...]
    operands: tuple[OperandPattern, ...]
    attributes: dict[str, AttributePattern]
    like: str | None = None
    carried: frozenset[str] = field(default_factory=frozenset)
    custom: str | None = None

    def fits(self, op: Op) -> bool:
        """Return whether ``op`` is of one of the kinds, and has the custom code."""
        return isinstance(op, self.kinds) and (
            self.custom is None or getattr(op, "custom_code", None) in self.custom.split("|")
        )

    def kind_names(self) -> str:
        """Return the kinds as words for a message."""
        names = " or ".join(kind.__name__ for kind in self.kinds)
        return names if self.custom is None else f"the custom operator {self.custom.replace('|', ' or ')}"


@dataclass(eq=False, repr=False)
class Picture:
    """A parsed picture: ``nodes`` in the order of the text; the last node is the root.

    ``producer``: the node of each result, by name.  ``alias``: if the picture has no operator but is a single
    name, this name; then there are no nodes, and no root.
    """

    nodes: tuple[Node, ...]
    producer: dict[str, Node]
    alias: str | None = None

    @property
    def root(self) -> Node:
        return self.nodes[-1]

    def bound(self) -> set[str]:
        """Return the names of attribute values in the picture, such as ``a`` in ``{act: any = a}``."""
        return {a.bind for n in self.nodes for a in n.attributes.values() if a.bind}

    def operand_names(self) -> list[str]:
        """Return the names of all operands, in order; a name may occur several times."""
        return [o.name for n in self.nodes for o in n.operands if o.name]


def kind_name(kind: type[Op]) -> str:
    """Return the name of an operator class in pictures."""
    return CUSTOM if kind is OpaqueOp else kind.__name__


def parse_picture(text: str, label: str, variables: Sequence[str] = (), is_after: bool = False) -> Picture:
    """Parse a picture; raise ParseError, with a caret under the place, for a mistake.

    ``label``: begins the message of an error.
    ``variables``: the names that ``before`` gives to attribute values; ``after`` may use them as values.
    ``is_after``: whether the picture is an ``after``.  Then it must say exactly what is created, and may use
    ``like``.  Lower-case words that are neither in ``variables`` nor the name of a dtype stand for attribute
    values that the pass computes.
    """
    source = Source(text, label)
    if source.peek.kind == "name" and source.ahead().kind == "end":
        return Picture((), {}, alias=source.peek.text)
    reader = _Reader(source, frozenset(variables), is_after)
    while source.peek.kind != "end":
        statement = parse_statement(source)
        if isinstance(statement, Constant):
            message = "expected an operator, got a constant; write `name: const` in an operand"
            source.fail(message, statement.result)
        reader.add(statement)
    if not reader.nodes:
        source.fail("the picture is empty")
    return Picture(tuple(reader.nodes), reader.producer)


@cache
def query(text: str, label: str) -> Picture:
    """Parse a picture that is only matched, never replaced: attributes that it omits may have any value."""
    picture = parse_picture(text, label)
    for node in picture.nodes:
        names = {attribute.name for kind in node.kinds for attribute in kind.attributes}
        node.carried = frozenset(names - set(node.attributes))
    return picture


class _Reader:
    """Checks the statements of a picture against the declarations of operators, and makes nodes of them.

    ``variables``, ``is_after``: see ``parse_picture``.  ``nodes``, ``producer``: see ``Picture``.
    ``read``: the names of the operands so far.
    """

    def __init__(self, source: Source, variables: frozenset[str], is_after: bool) -> None:
        self.source = source
        self.variables = variables
        self.is_after = is_after
        self.nodes: list[Node] = []
        self.producer: dict[str, Node] = {}
        self.read: set[str] = set()
        self.by_name = {cls.__name__: cls for cls in REGISTRY.values()}

    def add(self, call: Call) -> None:
        """Check the statement ``call`` and add its node; raise ParseError for a mistake."""
        if call.types:
            self.source.fail("types of results are allowed in models only", call.types[0].token)
        if call.like is not None and not self.is_after:
            self.source.fail("`like` is allowed in `after` only", call.like)
        if self.is_after:
            self._check_is_definite(call)
        custom = self._custom_code(call)
        kinds = tuple(self._kind(token) for token in call.kinds)
        required = count = len(call.operands)  # required: how many operands each operator must take
        while len(kinds) > 1 and required and call.operands[required - 1].optional:
            required -= 1  # if a node names several operators, some of them may lack the last operands
        for kind in kinds:
            specs = kind.operands
            maximum = count if specs and specs[-1].variadic else len(specs)
            minimum = sum(1 for s in specs if not s.optional and not s.variadic)
            if kind is not OpaqueOp and (count < minimum or required > maximum):
                names = ", ".join(s.name + ("?" if s.optional else "") for s in specs)
                expected = f"expected the operands ({names}) of {kind.__name__}"
                self.source.fail(f"{expected}, got {counted(count, 'operand')}", call.kinds[0])
            most = len(kind.result_names)
            if kind is not OpaqueOp and not kind.variadic_results and len(call.results) > most:
                expected = f"expected at most {counted(most, 'result')} of {kind.__name__}"
                self.source.fail(f"{expected}, got {len(call.results)}", call.results[most])
        operands = tuple(self._operand(kinds, i, node) for i, node in enumerate(call.operands))
        self.read.update(operand.name for operand in operands if operand.name)
        attributes = {name: self._attribute(kinds, name, a) for name, a in call.attributes.items()}
        results = tuple(token.text for token in call.results)
        like = call.like.text if call.like else None
        node = Node(kinds, results, operands, attributes, like, custom=custom)
        for token in call.results:
            if token.text in self.producer:
                self.source.fail(f"{token.text} is produced twice", token)
            if token.text in self.read:
                self.source.fail(f"{token.text} is read before it is produced", token)
            self.producer[token.text] = node
        self.nodes.append(node)

    def _check_is_definite(self, call: Call) -> None:
        """Raise ParseError if ``call``, in ``after``, does not say exactly what is created."""
        if len(call.kinds) > 1 and call.like is None:
            found = "|".join(token.text for token in call.kinds)
            self.source.fail(f"expected one operator in `after`, or {{like y}}, got {found}", call.kinds[1])
        for name, node in call.attributes.items():
            if len(node.choices) > 1 or node.choices == [ANY] or node.bind:
                found = "|".join(map(str, node.choices)) + (f" = {node.bind}" if node.bind else "")
                self.source.fail(f"expected one value of {name} in `after`, got {found}", node.token)
        for operand in call.operands:
            if operand.const or operand.type is not None:
                message = f"`const` and the type of {operand.name} are allowed in `before` only"
                self.source.fail(message, operand.token)

    def _custom_code(self, call: Call) -> str | None:
        """Remove the custom code from the operands of ``Custom`` and return it; None for other operators."""
        if all(token.text != CUSTOM for token in call.kinds):
            return None
        if len(call.kinds) > 1:
            self.source.fail(f"`|` cannot join {CUSTOM} with other operators", call.kinds[0])
        if self.is_after:
            self.source.fail("`after` cannot create custom operators", call.kinds[0])
        code = call.operands.pop(0).literal if call.operands else None
        if not isinstance(code, str):
            self.source.fail(f'expected the custom code first: {CUSTOM}("Erf", x)', call.kinds[0])
        return code

    def _kind(self, token: Token) -> type[Op]:
        """Return the operator class that ``token`` names."""
        if token.text == CUSTOM:
            return OpaqueOp
        kind = self.by_name.get(token.text)
        if kind is None:
            hint = suggest_operator(token.text, self.by_name)
            self.source.fail(f"no operator is named {token.text}{hint}", token)
        return kind

    def _operand(self, kinds: tuple[type[Op], ...], index: int, node: OperandNode) -> OperandPattern:
        """Return the pattern of operand ``index`` of a node that names the operators ``kinds``."""
        if node.name is None:
            assert node.literal is not None  # an operand has a name or a literal
            array_of(node.literal, f64, None, self.source.fail_at(node.token))  # only to find mistakes
            return OperandPattern(None, literal=node.literal, const=True)
        spec = kinds[0].operand_spec(index)
        if node.optional and len(kinds) == 1 and spec is not None and not spec.optional:
            self.source.fail(f"the operand {spec.name} of {kinds[0].__name__} is not optional", node.token)
        if node.type is None:
            return OperandPattern(node.name, optional=node.optional, const=node.const)
        if node.type.suffixes:
            word = node.type.suffixes[0]
            self.source.fail(f"{word.name} after a type is allowed in models only", word.token)
        dtype = None
        if node.type.dtype is not None:
            dtype = BY_SHORT.get(node.type.dtype)
            if dtype is None:
                self.source.fail(f"no dtype is named {node.type.dtype}", node.type.token)
        dims = None if node.type.dims is None else tuple(node.type.dims)
        if wrong := [dim for dim in dims or () if not DIMENSION.fullmatch(str(dim))]:
            expected = "expected a dimension such as 3, O, O|1, _ or *"
            self.source.fail(f"{expected}, got {wrong[0]}", node.type.token)
        if dims is not None and "*" in dims[1:]:
            self.source.fail("* stands for leading dimensions of 1, so it must come first", node.type.token)
        return OperandPattern(node.name, None, node.optional, node.const, dtype, dims)

    def _attribute(self, kinds: tuple[type[Op], ...], name: str, node: AttributeNode) -> AttributePattern:
        """Return the pattern of the attribute ``name``, which all ``kinds`` must have."""
        for kind in kinds:
            spec = next((a for a in kind.attributes if a.name == name), None)
            if spec is None:
                hint = did_you_mean(name, [a.name for a in kind.attributes])
                self.source.fail(f"{kind.__name__} has no attribute {name}{hint}", node.token)
        assert spec is not None  # there is a kind
        if node.choices == [ANY]:
            return AttributePattern(None, node.bind)
        return AttributePattern(tuple(self._choice(spec, c, node.token) for c in node.choices), node.bind)

    def _choice(self, spec: Attribute, choice: Any, token: Token) -> Any:
        """Return the value of one choice for the attribute ``spec``, or a Symbol for a name of a value."""
        if isinstance(choice, Symbol):
            is_computed = self.is_after and choice.islower() and choice not in BY_SHORT
            if choice in self.variables or is_computed:
                return choice
        return attribute_of(spec, choice, {}, self.source.fail_at(token))


def carry_attributes(before: Picture, after: Picture) -> None:
    """Set ``carried`` in the nodes of ``before``: the attributes that ``{like y}`` in ``after`` copies.

    They match with any value.  Other attributes that ``before`` does not mention match only their default:
    the rewrite would lose another value.
    """
    for new in after.nodes:
        if new.like is None:
            continue
        old = before.producer[new.like]
        shared = {a.name for kind in new.kinds for a in kind.attributes}
        carried = {a.name for kind in old.kinds for a in kind.attributes} & shared
        old.carried = old.carried | frozenset(carried - set(new.attributes))
