# SPDX-License-Identifier: Apache-2.0
"""What a pass is, and what it is told and may tell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from circlekit.errors import RewriteError

if TYPE_CHECKING:
    from circlekit.ir.graph import Graph, Model
    from circlekit.ir.op import Op

FOLD_LIMIT = 64 << 20


@dataclass
class Refusal:
    """Why a pass left something alone.  ``progress``: how far it got, to tell a near miss from a far one."""

    pass_name: str
    graph: str
    op: Op
    sentence: str
    progress: int = 0


@dataclass
class Context:
    """What all passes of one optimization share.

    ``format``: what the model will be written as; a pass creates no operator that this lacks.
    ``fold_limit``: the largest constant, in bytes, that a pass may create by computing it.
    ``refusals``: where near misses are noted, or None when nobody asks.
    """

    format: str = "circle"
    fold_limit: int = FOLD_LIMIT
    refusals: list[Refusal] | None = None

    def refuse(self, pass_name: str, op: Op, sentence: str, progress: int = 0) -> None:
        """Note a near miss; free when nobody asks."""
        if self.refusals is not None:
            graph = op.graph.name if op.graph is not None else ""
            self.refusals.append(Refusal(pass_name, graph, op, sentence, progress))


PASSES: dict[str, type[Pass]] = {}
"""Every pass that has been defined, by name."""


class Pass(ABC):
    """A named change of a model that keeps its values and its interface (design, section 6).

    A subclass with a ``name`` enters PASSES by being defined.  ``formats``: the target formats for which
    the pass makes sense: one that creates operators of circle alone is skipped for TFLite.  ``undoes``:
    passes whose work this one takes back: a pipeline leaves it out where one of them is asked for.
    """

    name: ClassVar[str] = ""
    formats: ClassVar[frozenset[str]] = frozenset({"circle", "tflite"})
    undoes: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__dict__.get("name"):
            known = PASSES.setdefault(cls.name, cls)
            if known.__qualname__ != cls.__qualname__ or known.__module__ != cls.__module__:
                raise RewriteError(f"{cls.__module__}: the pass {cls.name} is defined in {known.__module__}")
            PASSES[cls.name] = cls  # defined anew, as in a notebook

    @abstractmethod
    def run(self, model: Model, context: Context) -> int:
        """Change ``model`` as far as this pass can; returns how many changes were made, 0 for none."""


class GraphPass(Pass):
    """A pass that looks at one graph at a time."""

    def run(self, model: Model, context: Context) -> int:
        return sum(self.run_graph(graph, context) for graph in model.graphs)

    @abstractmethod
    def run_graph(self, graph: Graph, context: Context) -> int:
        """Like ``run``, for one graph."""
