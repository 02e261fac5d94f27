# SPDX-License-Identifier: Apache-2.0
"""Parse statements of the text form to a syntax tree.  Models, recipes and pictures share this grammar.

    statement := ref "=" constant | ref {"," ref} "=" call
    constant  := "const" type literal
    call      := operator {"|" operator} "(" operand... ")" ["{" attribute... "}"] [":" type {"," type}]
    operand   := literal | ref ["?"] [":" ["const"] type]
    attribute := name ":" literal {"|" literal} ["=" name] | "like" ref
    type      := [dtype] ["[" dim... "]"] {suffix "(" argument... ")"} {"variable"}
    dim       := "?" | "*" | (number | name) ["|" (number | name)]
    suffix    := "quant" | "extra" | "named"
    argument  := [name ":"] literal
    literal   := number | string | "true" | "false" | name | graph | value | "[" literal... "]"
               | name "(" argument... ")" | tree
    tree      := "{" entry... "}"     entry := (name | string) ":" literal
    ref       := value | name

Text in quotes stands for itself, ``[x]`` is optional, ``{x}`` is any number of x.  ``x...`` is any number of
x with commas between them; a comma may follow the last.  ``name``, ``string``, ``number``, ``graph``
(``@name``) and ``value`` (``%name``) are kinds of tokens.  An ``operator`` is a name such as Conv2D, a
``dtype`` a name such as f32.  A name at the start of a type is its dtype, and a list there its shape.

A picture is one side of a rewrite: a small graph as text.  A ref is a value in a model (or the name ``none``
for an absent operand) and a name in a picture.  An operand that begins with a value or a name is a ref, so
``zeros(3)`` is not an operand; only the names ``true`` and ``false`` are literals.  The literal of a constant
is neither a graph nor a value.

Except for this last rule, the module accepts the whole grammar in every text.  What is not allowed in a model
(such as ``?`` after an operand), or not in a picture, is refused later.

Functions are named after what they parse, such as ``parse_call`` for a ``call``, and raise ParseError for
invalid text.  The names of operators, dtypes and fillers are checked later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isinf
from typing import TypeVar, Union

from circlekit.errors import did_you_mean
from circlekit.ir.text.lexer import Source, Token

T = TypeVar("T")
Literal = Union[int, float, bool, str, "Arguments", list["Literal"], dict[str, "Literal"]]
"""A parsed literal.  Text in quotes is exactly of type ``str``, other words are of a subclass below."""


class Symbol(str):
    """A bare word as a literal, such as a member of an enum, or ``any``."""

    __slots__ = ()


class GraphName(str):
    """``@name`` as a literal."""

    __slots__ = ()


class ValueName(str):
    """``%name`` as a literal that is not an operand."""

    __slots__ = ()


@dataclass(eq=False, repr=False)
class Arguments:
    """``name(...)``: a filler, a suffix of a type, a literal such as ``base64(...)``, or a rule of a recipe.

    ``positional``, ``named``: the arguments without and with ``name:``.  ``token``: the token of ``name``.
    (In all classes here, tokens say where in the text an error is.)
    """

    name: str
    positional: list[Literal]
    named: dict[str, Literal]
    token: Token


@dataclass(eq=False, repr=False)
class TypeNode:
    """A type.

    ``dtype``: its name, None if left out or ``_``.  ``dims``: the dimensions, None if left out.

    - In models: each is a number, or "?" if it is unknown.  ["*"] is the shape of a value of unknown rank.
    - In pictures: each is a number, a name ("_" is any size), or alternatives such as "O|1".  A leading "*"
      is any number of ones.

    ``suffixes``: such as ``quant(...)``; ``variable`` is stored as ``Arguments`` without arguments.
    ``token``: the first token of the type.
    """

    dtype: str | None
    dims: list[int | str] | None
    suffixes: list[Arguments]
    token: Token


@dataclass(eq=False, repr=False)
class OperandNode:
    """An operand: a ``name`` or a ``literal``.

    In pictures, ``?`` (``optional``), ``const`` and a type may follow the name.  ``token``: the first token.
    """

    token: Token
    name: str | None = None
    literal: Literal | None = None
    optional: bool = False
    const: bool = False
    type: TypeNode | None = None


@dataclass(eq=False, repr=False)
class AttributeNode:
    """An attribute.

    ``choices``: its value, or the possible values in a picture.  ``bind``: the name that a picture gives to
    the value, or None.  ``token``: the name of the attribute.
    """

    token: Token
    choices: list[Literal]
    bind: str | None = None


@dataclass(eq=False, repr=False)
class Call:
    """An operator.

    ``results``: their names.  ``kinds``: the name of its class, or the possible names in a picture.
    ``types``: the types of the results; [] if they are left out.
    ``like``: only in the picture ``after`` of a rewrite: a result in the picture ``before``.  The new
    operator copies the attributes of the operator that produces this result.
    """

    results: list[Token]
    kinds: list[Token]
    operands: list[OperandNode]
    attributes: dict[str, AttributeNode] = field(default_factory=dict)
    like: Token | None = None
    types: list[TypeNode] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class Constant:
    """A constant.  ``payload``: its elements, its bytes, or the filler that makes them."""

    result: Token
    type: TypeNode
    payload: Literal
    token: Token
    """The start of the payload."""


def separated(source: Source, close: str, item: Callable[[], T]) -> list[T]:
    """Parse items up to the mark ``close``, take this mark, and return the items.

    Commas separate the items; a comma may follow the last.  ``item``: parses one item.
    """
    items: list[T] = []
    while not source.accept(close):
        items.append(item())
        if not source.at(close):
            source.expect(",")
    return items


def parse_statement(source: Source) -> Call | Constant:
    results = [source.expect_kind("value", "name")]
    while source.accept(","):
        results.append(source.expect_kind("value", "name"))
    source.expect("=")
    if source.at("const"):
        if len(results) > 1:
            source.fail("a constant has one name", results[1])
        source.take()
        type_, token = parse_type(source), source.peek
        has_data = token.kind in ("number", "string", "name", "mark") and token.text not in ("}", ")")
        if not has_data:
            source.fail("expected the data of the constant after its type, such as zeros, or a list")
        return Constant(results[0], type_, parse_literal(source), token)
    return parse_call(source, results)


def parse_call(source: Source, results: list[Token]) -> Call:
    kinds = [source.expect_kind("name")]
    while source.accept("|"):
        kinds.append(source.expect_kind("name"))
    source.expect("(")
    call = Call(results, kinds, separated(source, ")", lambda: parse_operand(source)))
    if source.accept("{"):
        _parse_attributes(source, call)
    if source.accept(":"):
        call.types.append(parse_type(source))
        while source.accept(","):
            call.types.append(parse_type(source))
    return call


def parse_operand(source: Source) -> OperandNode:
    token = source.peek
    is_bool = token.kind == "name" and token.text in ("true", "false")
    if token.kind not in ("value", "name") or is_bool:
        return OperandNode(token, literal=parse_literal(source))
    source.take()
    node = OperandNode(token, name=token.text)
    node.optional = source.accept("?")
    if source.accept(":"):
        node.const = source.accept("const")
        node.type = parse_type(source)
    return node


def parse_type(source: Source) -> TypeNode:
    token = source.peek
    dtype = source.take().text if token.kind == "name" else None
    dtype = None if dtype == "_" else dtype  # in pictures, "_" is any dtype
    dims: list[int | str] | None = None
    if source.accept("["):
        dims = separated(source, "]", lambda: _parse_dim(source))
    suffixes: list[Arguments] = []
    while source.peek.kind == "name" and source.ahead().text == "(" and source.peek.text in _SUFFIXES:
        suffixes.append(parse_arguments(source))
    while source.peek.kind == "name" and source.peek.text in _FLAGS:
        flag = source.take()
        suffixes.append(Arguments(flag.text, [], {}, flag))
    _refuse_misspelled_suffix(source)
    return TypeNode(dtype, dims, suffixes, token)


def _refuse_misspelled_suffix(source: Source) -> None:
    """Raise ParseError if the name after a type resembles a suffix.

    A filler or an operator may also follow a type.  None of their names resembles ``quant``, ``extra`` or
    ``named``.
    """
    token, following = source.peek, source.ahead().text
    begins_statement = following in ("=", ",", ":")  # ``token`` is then a result in a picture
    if token.kind == "name" and token.text not in _SUFFIXES | _FLAGS and not begins_statement:
        # before "(", ``variable`` is not suggested: ReadVariable(...) resembles it, but begins a statement
        hint = did_you_mean(token.text, sorted(_SUFFIXES if following == "(" else _SUFFIXES | _FLAGS))
        if hint:
            source.fail(f"no suffix of a type is named {token.text}{hint}", token)


_SUFFIXES = frozenset({"quant", "extra", "named"})
"""The suffixes of a type that have arguments.

Another name with arguments, such as a filler, ends the type.
"""

_FLAGS = frozenset({"variable"})  # suffixes without arguments


def _parse_dim(source: Source) -> int | str:
    if source.accept("?"):
        return "?"
    if source.accept("*"):
        return "*"
    token = source.expect_kind("number", "name")
    if token.kind == "number" and not token.text.isdigit():
        source.fail(f"expected an integer as dimension, got {token.text[:40]}", token)
    if token.kind == "number" and len(token.text) > _MAX_NUMBER_CHARACTERS:
        source.fail(f"a number has at most {_MAX_NUMBER_CHARACTERS} characters", token)
    if source.accept("|"):
        return f"{token.text}|{source.expect_kind('number', 'name').text}"
    return token.text if token.kind == "name" else int(token.text)


def _parse_attributes(source: Source, call: Call) -> None:
    while not source.accept("}"):
        name = source.expect_kind("name")
        if name.text == "like" and source.peek.kind in ("name", "value"):
            call.like = source.take()
        else:
            if name.text in call.attributes:
                source.fail(f"attribute {name.text} is given twice", name)
            source.expect(":")
            node = AttributeNode(name, [parse_literal(source)])
            while source.accept("|"):
                node.choices.append(parse_literal(source))
            if source.accept("="):
                node.bind = source.expect_kind("name").text
            call.attributes[name.text] = node
        if not source.at("}"):
            source.expect(",")


def parse_arguments(source: Source) -> Arguments:
    token = source.expect_kind("name")
    arguments = Arguments(token.text, [], {}, token)
    source.expect("(")

    def argument() -> None:
        if source.peek.kind == "name" and source.ahead().text == ":":
            name = source.take()
            source.take()
            if name.text in arguments.named:
                source.fail(f"argument {name.text} is given twice", name)
            arguments.named[name.text] = parse_literal(source)
        else:
            arguments.positional.append(parse_literal(source))

    separated(source, ")", argument)
    return arguments


def parse_literal(source: Source) -> Literal:
    if source.accept("["):
        return separated(source, "]", lambda: parse_literal(source))
    if source.at("{"):
        return parse_tree(source)
    if source.peek.kind == "name" and source.ahead().kind == "mark" and source.ahead().text == "(":
        return parse_arguments(source)
    token = source.expect_kind("number", "string", "name", "graph", "value")
    if token.kind == "number":
        if len(token.text) > _MAX_NUMBER_CHARACTERS:
            source.fail(f"a number has at most {_MAX_NUMBER_CHARACTERS} characters", token)
        digits = token.text.lstrip("-")
        if digits.startswith("0x"):
            return int(token.text, 16)
        if digits.isdigit():
            return int(token.text)
        if isinf(number := float(token.text)) and digits != "inf":  # the text may be inf, -inf or nan
            source.fail(f"{token.text[:40]} does not fit f64", token)
        return number
    if token.kind == "name":
        return {"true": True, "false": False}.get(token.text, Symbol(token.text))
    kinds: dict[str, type[str]] = {"graph": GraphName, "value": ValueName}
    return kinds.get(token.kind, str)(token.text)


def parse_tree(source: Source) -> dict[str, Literal]:
    source.expect("{")
    tree: dict[str, Literal] = {}

    def item() -> None:
        key = source.expect_kind("name", "string")
        if key.text in tree:
            source.fail(f"{key.text} is given twice", key)
        source.expect(":")
        tree[key.text] = parse_literal(source)

    separated(source, "}", item)
    return tree


_MAX_NUMBER_CHARACTERS = 1000  # int(text) is slow for long texts, and fails above 4300 digits
