# SPDX-License-Identifier: Apache-2.0
"""Parse the text form of a model.

A text may come from anywhere: the parser opens no file, and limits memory.  Types of results that are left
out, or that lack dtype or shape, are inferred.  A text without ``model`` is a circle model.  Fillers are
seeded by the names of graph and value, so that a renamed file has the same bytes.
"""

from __future__ import annotations

from circlekit.errors import near_miss
from circlekit.ir.graph import Graph, Model, Signature, postorder
from circlekit.ir.op import REGISTRY
from circlekit.ir.resource_limits import adding_up
from circlekit.ir.text.builder import GraphBuilder, Scope
from circlekit.ir.text.constant_data import Resolve
from circlekit.ir.text.document import Document, SignatureNode, parse_document
from circlekit.ir.text.lexer import Source
from circlekit.ir.text.literal_parsing import Fail, bytes_of, tree_of
from circlekit.ir.text.syntax import Arguments, Literal
from circlekit.ir.value import Value

FORMATS = ("circle", "tflite")


@adding_up()
def parse_model(text: str, label: str = "text", resolve: Resolve | None = None) -> Model:
    """Return the model that ``text`` describes; ParseError with a caret under the place of an error.

    ``label``: the name of the text in errors, such as its path.  ``resolve``: returns the bytes of constants
    in files; without it a text that refers to a file is refused.  Operators must have been declared
    (``import circlekit.ops``).  ShapeError if an operator does not fit its operands; LimitError if all
    constants together exceed the memory limit.
    """
    source = Source(text, label)
    document = parse_document(source)
    if not document.graphs:
        source.fail("the text has no graph")
    model = _header(source, document)
    model.source = label
    graphs: dict[str, Graph] = {}
    for node in document.graphs:
        if node.name.text in graphs:
            source.fail(f"graph {node.name.text} is defined twice", node.name)
        graphs[node.name.text] = Graph(node.name.text)
    model.graphs = list(graphs.values())
    operators = {cls.__name__: cls for cls in REGISTRY.values()}
    scope = Scope(source, operators, graphs, resolve)
    values: dict[str, dict[str, Value]] = {}
    nodes = {node.name.text: node for node in document.graphs}
    for node in postorder(document.graphs, lambda n: [nodes[r] for r in n.references() if r in nodes]):
        builder = GraphBuilder(scope, node, graphs[node.name.text])
        builder.build()
        values[node.name.text] = builder.values
    model.signatures = [_signature(source, s, graphs, values) for s in document.signatures]
    return model


def _header(source: Source, document: Document) -> Model:
    model = Model([])
    token = document.format
    if token is not None:
        if token.text not in FORMATS:
            source.fail(f"expected the format circle or tflite, got {token.text}", token)
        model.format = token.text
        fail = source.fail_at(token)
        options = tree_of(document.options, fail)
        for name, kind, description in (("version", int, "whole number"), ("description", str, "text")):
            value = options.pop(name, None)
            if value is not None:
                if type(value) is not kind:
                    fail(f"{name} of a model must be a {description}")
                setattr(model, name, value)
        for name in options:
            fail(f"a model has no {name}" + near_miss(name, ("version", "description")))
    for key, data in document.metadata:
        model.metadata.append((key.text, _metadata(data, source.fail_at(key))))
    if document.extra is not None:
        model.extra = tree_of(document.extra, source.fail_at(source.tokens[0]))
    return model


def _metadata(data: Literal, fail: Fail) -> bytes:
    if type(data) is str:
        return data.encode("utf-8", "surrogatepass")
    if not isinstance(data, Arguments) or data.name != "base64" or len(data.positional) != 1:
        fail('expected a text or base64("...") as metadata')
    return bytes_of(data.positional[0], fail)


def _signature(
    source: Source, node: SignatureNode, graphs: dict[str, Graph], values: dict[str, dict[str, Value]]
) -> Signature:
    if node.graph.text not in graphs:
        source.fail(f"no graph is named @{node.graph.text}" + near_miss(node.graph.text, graphs), node.graph)
    known = values[node.graph.text]
    sides: list[dict[str, Value]] = []
    for ports in (node.inputs, node.outputs):
        side: dict[str, Value] = {}
        for key, token in ports:
            if token.text not in known:
                near = near_miss(token.text, known)
                source.fail(f"@{node.graph.text} has no %{token.text}{near}", token)
            if key in side:
                source.fail(f"{key} is given twice", token)
            side[key] = known[token.text]
        sides.append(side)
    return Signature(node.key.text, graphs[node.graph.text], *sides)
