# SPDX-License-Identifier: Apache-2.0
"""Models (graphs, signatures, metadata), and the order in which callees precede their callers."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from circlekit.ir.core import Graph, Op, Value, to_text

__all__ = ["Graph", "Model", "Signature", "postorder"]

T = TypeVar("T")


@dataclass
class Signature:
    """A named way to call a graph: the caller's names for its inputs and outputs."""

    key: str
    graph: Graph
    inputs: dict[str, Value]
    outputs: dict[str, Value]


@dataclass(eq=False, repr=False)
class Model:
    """A model: graphs (the first is the main one), signatures and metadata.

    ``format``: "circle" or "tflite", the format that it was read from and is saved in by default.
    ``source``: the path it was read from, for messages; constants may be views of that file's memory map.
    ``version``: of the schema.  ``extra``: fields of the schema's table Model that the IR does not interpret.
    """

    graphs: list[Graph]
    format: str = "circle"
    signatures: list[Signature] = field(default_factory=list)
    metadata: list[tuple[str, bytes]] = field(default_factory=list)
    description: str | None = None
    version: int = 3
    source: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def main(self) -> Graph:
        return self.graphs[0]

    def ops(self) -> Iterator[Op]:
        """Every operator of every graph."""
        for graph in self.graphs:
            yield from graph

    def __str__(self) -> str:
        """The text form, with large constants shortened (``ir.text.print_model`` prints all of them)."""
        return to_text(self)

    def __repr__(self) -> str:
        source = f" {self.source}" if self.source is not None else ""
        graphs = "\n  ".join(map(repr, self.graphs)) or "no graph"
        return f"<Model{source} ({self.format}): {graphs}>"

    def _repr_html_(self) -> str:
        """The text form for notebooks."""
        return f"<pre>{html.escape(str(self))}</pre>"


def postorder(starts: Iterable[T], callees: Callable[[T], Iterable[T]]) -> list[T]:
    """Return ``starts`` and all they call, directly or not, each once; callees first, except in cycles."""
    ordered: list[T] = []
    opened: set[int] = set()
    closed: set[int] = set()
    for start in starts:
        stack = [start]
        while stack:
            node = stack[-1]
            if id(node) in opened:
                stack.pop()
                if id(node) not in closed:
                    closed.add(id(node))
                    ordered.append(node)
                continue
            opened.add(id(node))
            stack += [callee for callee in callees(node) if id(callee) not in opened]
    return ordered
