# SPDX-License-Identifier: Apache-2.0
"""Models, with their graphs, signatures and metadata; the order of graphs that call each other."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from circlekit.errors import ModelError
from circlekit.ir.core import Graph, Op, Value, to_text

__all__ = ["Graph", "Model", "Signature", "called_graphs", "check_model", "postorder"]

T = TypeVar("T")


@dataclass
class Signature:
    """A named way to call a graph.

    ``key``: the name of the signature.  ``inputs``, ``outputs``: values of the graph by the names that a
    caller uses for them.
    """

    key: str
    graph: Graph
    inputs: dict[str, Value]
    outputs: dict[str, Value]


@dataclass(eq=False, repr=False)
class Model:
    """A model: graphs (the first is the main graph), signatures and metadata.

    ``format``: "circle" or "tflite", the format of the file that the model was read from.  ``save`` writes
    this format if the extension of the new path names no format.  ``source``: the path of the file that was
    read, for messages; constants may be views of its memory map.  ``metadata``: pairs of a name and bytes.
    ``version``: the version of the schema.  ``extra``: fields of the schema's table Model that the IR does
    not interpret.
    A ``copy.copy`` shares the graphs.  A ``copy.deepcopy`` or a pickled model shares nothing that may change.
    """

    graphs: list[Graph]
    format: str = "circle"
    signatures: list[Signature] = field(default_factory=list)
    metadata: list[tuple[str, bytes]] = field(default_factory=list)
    description: str | None = None
    version: int = 3
    source: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ModelError if ``graphs`` is a single graph."""
        graphs: object = self.graphs
        if isinstance(graphs, Graph):
            raise ModelError(f"expected a list of graphs, got {graphs!r}")

    @property
    def main(self) -> Graph:
        """The first graph; raises ModelError if there is none."""
        if not self.graphs:
            raise ModelError("the model has no graph")
        return self.graphs[0]

    def ops(self) -> Iterator[Op]:
        """Yield every operator of every graph."""
        for graph in self.graphs:
            yield from graph

    def __str__(self) -> str:
        """Return the text form; large constants are shortened, unlike in ``ir.text.print_model``."""
        return to_text(self)

    def __repr__(self) -> str:
        source = f" {self.source}" if self.source is not None else ""
        graphs = "\n  ".join(map(repr, self.graphs)) or "no graph"
        return f"<Model{source} ({self.format}): {graphs}>"

    def _repr_html_(self) -> str:
        """Return the text form as HTML, for notebooks."""
        return f"<pre>{html.escape(str(self))}</pre>"


def check_model(model: object) -> None:
    """Raise ModelError if ``model`` is not a Model."""
    if not isinstance(model, Model):
        raise ModelError(f"expected a Model, got {type(model).__name__}; circlekit.load returns one")


def postorder(starts: Iterable[T], callees: Callable[[T], Iterable[T]]) -> list[T]:
    """Return ``starts`` and everything that they call, directly or not, each once.

    A callee stands before its callers, except in a cycle of calls.
    """
    ordered: list[T] = []
    opened: set[int] = set()
    closed: set[int] = set()
    for start in starts:
        stack = [start]
        while stack:
            node = stack[-1]
            if id(node) in opened:  # its callees are done, or it is on the stack a second time
                stack.pop()
                if id(node) not in closed:
                    closed.add(id(node))
                    ordered.append(node)
                continue
            opened.add(id(node))
            stack += [callee for callee in callees(node) if id(callee) not in opened]
    return ordered


def called_graphs(ops: Iterable[Op]) -> list[Graph]:
    """Return the graphs that ``ops`` call, directly or not, each once.

    A caller stands before its callees, except in a cycle of calls.
    """
    direct = [g for op in ops for g in op.called_graphs()]
    return postorder(direct, lambda graph: [g for op in graph for g in op.called_graphs()])[::-1]
