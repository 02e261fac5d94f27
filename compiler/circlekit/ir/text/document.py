# SPDX-License-Identifier: Apache-2.0
"""Parse the text of a whole model to its syntax tree; the module ``syntax`` parses the statements in it.

    document  := ["model" format [tree]] {metadata | signature | extra} {graph} {rules}   in any order
    metadata  := "metadata" string (string | "base64" "(" string ")")
    signature := "signature" string graphref "(" port... ")" ["->" "(" port... ")"]
    port      := [(name | string) ":"] value
    extra     := "extra" tree
    graph     := "graph" (name | string) "(" input... ")" ["->" value {"," value}]
                 ["named" "(" string ")"] "{" {line} "}"
    input     := value ":" type | value           the second form repeats an earlier input
    line      := statement | call | value ":" type | "extra" tree | "table" ["[" value... "]"]
    rules     := "rules" "{" {name "(" argument... ")"} "}"

A ``graphref`` is ``@name``.  A ``value`` is ``%name``: in a signature, a value of the graph that its
``graphref`` names; elsewhere, a value of the graph in whose text it stands.  ``syntax`` explains the
notation, and defines ``statement``, ``call``, ``type``, ``tree`` and ``argument``.

``model`` and ``extra`` occur at most once in a document, ``table`` and ``extra`` at most once in a graph.

``rules`` say what must hold after some passes (see ``recipes.rules``); they are not part of the model.
``extra`` gives fields of the schema that the IR does not interpret.  If a name in the model is empty or used
twice, the text has another name, and ``named("...")`` gives the name in the model.  ``table`` lists the
values in the order of the file.  Without brackets, that is the order in which the text defines them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from circlekit.errors import did_you_mean
from circlekit.ir.graph import Model
from circlekit.ir.text.lexer import Source, Token
from circlekit.ir.text.literal_parsing import Fail, bytes_of, tree_of
from circlekit.ir.text.syntax import (
    Arguments,
    Call,
    Constant,
    GraphName,
    Literal,
    TypeNode,
    parse_arguments,
    parse_call,
    parse_literal,
    parse_statement,
    parse_tree,
    parse_type,
    separated,
)

T = TypeVar("T")

FORMATS = ("circle", "tflite")


@dataclass(eq=False, repr=False)
class ValueNode:
    """A value with a type only: an input, or another value that has neither a producer nor data.

    ``token``: its name.  ``type``: None if an input is listed a second time.
    """

    token: Token
    type: TypeNode | None


@dataclass(eq=False, repr=False)
class GraphNode:
    """A graph.

    ``name``: the name in the text.  ``named``: the name in the model as ``named("...")``, if it differs.
    ``statements``: calls of operators, constants and other values, in the order of the text.  ``table``: the
    values in the order of the file; [] stands for the order of the text, None for no table.
    """

    name: Token
    inputs: list[ValueNode]
    outputs: list[Token] = field(default_factory=list)
    named: Arguments | None = None
    statements: list[Call | Constant | ValueNode] = field(default_factory=list)
    table: list[Token] | None = None
    extra: dict[str, Literal] | None = None

    def references(self) -> list[str]:
        """Return the names, as in the text, of the graphs that are attributes of operators of this graph."""
        calls = (s for s in self.statements if isinstance(s, Call))
        literals = (literal for s in calls for a in s.attributes.values() for literal in a.choices)
        return [literal for literal in literals if isinstance(literal, GraphName)]


@dataclass(eq=False, repr=False)
class SignatureNode:
    """A signature: ``key`` is its name.  Each input and output is a pair: the name for callers, the value."""

    key: Token
    graph: Token
    inputs: list[tuple[str, Token]]
    outputs: list[tuple[str, Token]]


@dataclass(eq=False, repr=False)
class Document:
    """The syntax tree of a text.

    ``model``: a Model that does not have its graphs and signatures yet.  ``rules``: the function calls in
    each block of rules; ``recipes.rules`` defines the functions.
    """

    model: Model
    signatures: list[SignatureNode] = field(default_factory=list)
    graphs: list[GraphNode] = field(default_factory=list)
    rules: list[list[Arguments]] = field(default_factory=list)


_FIRST_WORDS = ("model", "metadata", "signature", "extra", "graph", "rules")


def parse_document(source: Source) -> Document:
    """Return the syntax tree of ``source``; raise ParseError, with line and column, for a wrong text."""
    model = Model([])
    document = Document(model)
    seen: set[str] = set()
    while source.peek.kind != "end":
        if not source.at(*_FIRST_WORDS):
            source.fail(f"expected one of {', '.join(_FIRST_WORDS)}, got {source.peek.text[:40]!r}")
        word = source.take()
        if word.text in ("model", "extra") and word.text in seen:
            source.fail(f"{word.text} is given twice", word)
        seen.add(word.text)  # the other words may occur again
        if word.text == "graph":
            document.graphs.append(_parse_graph(source))
        elif word.text == "signature":
            key, graph = source.expect_kind("string"), source.expect_kind("graph")
            inputs = _parse_ports(source)
            outputs = _parse_ports(source) if source.accept("->") else []
            document.signatures.append(SignatureNode(key, graph, inputs, outputs))
        elif word.text == "metadata":
            key = source.expect_kind("string")
            model.metadata.append((key.text, _metadata(parse_literal(source), source.fail_at(key))))
        elif word.text == "rules":
            document.rules.append(_parse_block(source, "block of rules", lambda: parse_arguments(source)))
        elif word.text == "extra":
            model.extra = tree_of(parse_tree(source), source.fail_at(word))
        else:
            _parse_header(source, model)
    return document


def _parse_header(source: Source, model: Model) -> None:
    """Parse the format and the fields after the word ``model``, and set them in ``model``."""
    token = source.expect_kind("name")
    fail = source.fail_at(token)
    if token.text not in FORMATS:
        fail(f"expected the format circle or tflite, got {token.text}")
    model.format = token.text
    options = tree_of(parse_tree(source), fail) if source.at("{") else {}
    expected = {"version": (int, "an integer"), "description": (str, "a string")}
    for name, value in options.items():
        if name not in expected:
            fail(f"a model has no {name}" + did_you_mean(name, expected))
        expected_type, description = expected[name]
        if type(value) is not expected_type:
            fail(f"{name} of a model must be {description}")
        setattr(model, name, value)


def _metadata(data: Literal, fail: Fail) -> bytes:
    """Return the UTF-8 bytes of a string in quotes, or the bytes of ``base64("...")``."""
    if type(data) is str:
        return data.encode("utf-8", "surrogatepass")
    if not isinstance(data, Arguments) or data.name != "base64" or len(data.positional) != 1 or data.named:
        fail('expected a string or base64("...") as metadata')
    return bytes_of(data.positional[0], fail)


def _parse_block(source: Source, what: str, item: Callable[[], T]) -> list[T]:
    """Return the items between braces; there are no commas between them.

    ``what``: the name of the block in errors.  ``item``: parses one item.
    """
    opening = source.expect("{")
    items: list[T] = []
    while not source.accept("}"):
        if source.peek.kind == "end":
            source.fail(f"this {what} has no closing '}}'", opening)
        items.append(item())
    return items


def _parse_ports(source: Source) -> list[tuple[str, Token]]:
    """Return the inputs or outputs of a signature in parentheses; ``%x`` without a key means ``x: %x``."""

    def port() -> tuple[str, Token]:
        key = source.expect_kind("name", "string", "value")
        if key.kind == "value":
            return key.text, key
        source.expect(":")
        return key.text, source.expect_kind("value")

    source.expect("(")
    return separated(source, ")", port)


def _parse_graph(source: Source) -> GraphNode:
    name = source.expect_kind("name", "string")
    source.expect("(")
    node = GraphNode(name, separated(source, ")", lambda: _parse_input(source)))
    if source.accept("->"):
        node.outputs.append(source.expect_kind("value"))
        while source.accept(","):
            node.outputs.append(source.expect_kind("value"))
    if source.at("named"):
        node.named = parse_arguments(source)
    _parse_block(source, "graph", lambda: _parse_line(source, node))
    return node


def _parse_input(source: Source) -> ValueNode:
    token = source.expect_kind("value")
    return ValueNode(token, parse_type(source) if source.accept(":") else None)


def _parse_line(source: Source, node: GraphNode) -> None:
    """Parse one line of a graph and add it to ``node``."""
    token = source.peek
    following = source.ahead()
    if token.kind == "value" and following.kind == "mark" and following.text == ":":
        node.statements.append(_parse_input(source))
    elif token.kind == "value":
        node.statements.append(parse_statement(source))
    elif token.kind == "name" and following.kind == "mark" and following.text == "(":
        node.statements.append(parse_call(source, []))
    elif source.at("table"):
        if node.table is not None:
            source.fail("table is given twice", token)
        source.take()
        listed = source.accept("[")
        node.table = separated(source, "]", lambda: source.expect_kind("value")) if listed else []
    elif source.at("extra"):
        if node.extra is not None:
            source.fail("extra is given twice", token)
        source.take()
        node.extra = parse_tree(source)
    elif token.kind == "name" and following.kind == "mark" and following.text in ("=", ",", ":"):
        source.fail(f"a value of a graph is written %{token.text}", token)
    else:
        source.fail(f"expected a statement of a graph, got {token.text[:40]!r}", token)
