# SPDX-License-Identifier: Apache-2.0
"""Replace opaque operators of a parsed text by operators of the declared classes.

A text may write any operator as ``Opaque`` with the code and the options of a file; earlier versions of
circlekit wrote all operators like that.  An opaque operator is kept unchanged: passes do not rewrite it, and
the interpreter runs it only if it is a custom operator with a registered kernel.
"""

from __future__ import annotations

from circlekit.errors import CirclekitError, ParseError
from circlekit.io.operator_fields import without_graphs
from circlekit.io.read.load_ops import OpLoader
from circlekit.io.schema import Tree, options_field
from circlekit.ir.graph import Model
from circlekit.ir.location import place
from circlekit.ir.op import REGISTRY, Op, OpaqueOp


def declare_opaque(model: Model, label: str) -> None:
    """Replace each opaque operator of ``model`` whose code has a class by an operator of that class.

    Custom operators and unknown codes stay opaque.  So does an operator with the field ``misfit`` in
    ``extra``: the reason why the operator does not fit its class.  Raise ParseError if any other opaque
    operator does not fit its class.  ``label``: the name of the text, for messages.
    """
    loader = OpLoader(memoryview(b""), label, model.format, [], model.graphs)  # no bytes, no operator codes
    numbers = {id(graph): index for index, graph in enumerate(model.graphs)}
    for graph in model.graphs:
        for op in graph.ops:
            if not isinstance(op, OpaqueOp) or op.code not in REGISTRY or "misfit" in op.extra:
                continue
            new = _declared(op, loader, numbers)
            if isinstance(new, str):
                name = REGISTRY[op.code].__name__
                advice = f'write it as {name}(...), or keep it opaque with extra: {{misfit: "reason"}}'
                raise ParseError(f"Opaque {op.code} does not fit {name}: {new}; {advice}", place(op, model))
            # a text without a version means version 1, which ``required_version`` gives for an OpaqueOp
            new.version = op.required_version() if op.version is None else op.version
            graph.insert_before(op, new)
            graph.unlink(op)
            op.drop_inputs()


def _declared(op: OpaqueOp, loader: OpLoader, numbers: dict[int, int]) -> Op | str:
    """Return an operator of the declared class with the results of ``op``, or why ``op`` does not fit it.

    ``numbers``: the index of each graph by ``id(graph)``.
    """
    options = op.option_tree
    name = None if options is None else options.get("")
    union = options_field(name) if isinstance(name, str) else None
    if options is not None and union is None:
        return f"expected the name of an options table under the key '', got {name!r}"
    tree: Tree = dict(op.extra)
    if options is not None and union is not None:
        tree[union] = without_graphs(options, numbers)
    try:
        new = loader.declared(op.code, tree, op.inputs, op.results, path=op.code)
    except (CirclekitError, TypeError) as error:  # TypeError: an option in the text has a wrong type
        return str(error)
    if isinstance(new, Op):
        new.extra = tree
    return new
