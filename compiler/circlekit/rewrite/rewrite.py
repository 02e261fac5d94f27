# SPDX-License-Identifier: Apache-2.0
"""A pass that is a picture: ``before``, ``after``, and how the new constants are made."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from circlekit.errors import CirclekitError, ModelError, RewriteError, UnsupportedError
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.scratch_files import attentive
from circlekit.ir.shape_inference import check_op
from circlekit.ir.text.lines import print_op
from circlekit.ir.value import Value
from circlekit.rewrite.base import Context, GraphPass, Refusal
from circlekit.rewrite.build import Builder, quantized_refusal, range_refusal, type_refusal
from circlekit.rewrite.definition import Definition, define, may_match
from circlekit.rewrite.far import unread_parts
from circlekit.rewrite.match import Match, Matcher
from circlekit.rewrite.picture import Picture
from circlekit.rewrite.template import fill_template, is_template

F = TypeVar("F", bound=Callable[..., str | None])


MOST_ALIKE = 32
"""Readers of one value that are looked at, to see whether all of them are rewritten alike."""


def condition(method: F) -> F:
    """Mark a method of a Rewrite as a condition: it returns None, or the sentence of the refusal."""
    method.is_condition = True  # type: ignore[attr-defined]  # a mark that __init_subclass__ reads
    return method


class Rewrite(GraphPass):
    """``before`` becomes ``after`` (design, section 5).

    A method's parameters are filled by name: a constant of the picture as its array (None where absent),
    any other operand or result as its Value, a capital letter as its size, a bound attribute as its value,
    ``match`` as the Match.  ``constants`` returns, by name, what ``after`` uses and ``before`` lacks:
    arrays become constants, all else values of attributes.

    ``shared``: interior results that other operators may read too (they stay).
    ``spread``: interior results that other operators may read which are rewritten alike (so nothing stays).
    ``approximate``: whether values may change beyond rounding, as the peer's do; no pipeline runs it then.
    ``quantized``: whether quantized values may take part; the pass then keeps the parameters right.
    """

    before: ClassVar[str] = ""
    after: ClassVar[str] = ""
    shared: ClassVar[tuple[str, ...]] = ()
    spread: ClassVar[tuple[str, ...]] = ()
    quantized: ClassVar[bool] = False
    approximate: ClassVar[bool] = False
    _definition: ClassVar[Definition]

    def __init_subclass__(cls, **words: str) -> None:
        fill_template(cls, words)
        if is_template(cls):
            return
        if cls.before and cls.__module__.partition(".")[0] != __name__.partition(".")[0]:
            cls.definition()  # a mistake in a pass of another package is an error where the class is defined
        super().__init_subclass__()  # registers the pass, so this comes after the check

    @classmethod
    def member(cls, **words: str) -> type[Rewrite]:
        """Return the subclass of a template with these values of its ``$words``."""
        name = "_".join([cls.__name__, *(re.sub(r"\W+", "_", word).strip("_") for word in words.values())])
        body = {"__module__": cls.__module__}
        return types.new_class(name, (cls,), words, lambda namespace: namespace.update(body))

    @classmethod
    def definition(cls) -> Definition:
        """The parsed and checked pictures.  Those of circlekit are parsed when a graph may first match."""
        if "_definition" not in cls.__dict__:
            cls._definition = define(cls, cls.before, cls.after, cls.constants is not Rewrite.constants)
        return cls._definition

    @property
    def old(self) -> Picture:
        """The parsed ``before``."""
        return self.definition().before

    @property
    def new(self) -> Picture:
        """The parsed ``after``."""
        return self.definition().after

    def constants(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """What ``after`` needs beyond ``before``: arrays, and values of attributes."""
        return {}

    # -- driving -------------------------------------------------------------------------------

    def run_graph(self, graph: Graph, context: Context) -> int:
        if context.exact and self.approximate:
            return 0
        if context.refusals is None and not may_match(self.before, graph.kinds):
            return 0
        matcher = Matcher(self.old, context.refusals is not None, self.quantized)
        kinds = self.old.root.kinds
        changes = 0
        for op in graph.ops:
            root: Op | None = op
            while root is not None and root.graph is graph and isinstance(root, kinds) and root.results:
                if not matcher.may_fit(root):
                    break
                value = root.output
                if not self._try(graph, root, matcher, context):
                    break
                changes += 1
                root = value.producer  # what makes the value now may match again
        if context.far:
            for op, sentence, progress in unread_parts(matcher, graph):
                context.refuse(self.name, op, sentence, progress)
        return changes

    def _try(self, graph: Graph, op: Op, matcher: Matcher, context: Context) -> bool:
        """Rewrite the first match with root ``op`` that nothing refuses; whether there was one."""
        for match in matcher.matches(op):
            sentence = self._refusal(graph, match)
            if sentence is None and not context.may_rewrite:
                return False
            if sentence is None:
                before = None if context.budget is None else print_op(op)
                sentence = self._apply(graph, op, match)
                if sentence is None:
                    context.rewrites(before)
                    return True
            matcher.refuse(2 * len(self.old.nodes) + 1, sentence)  # further than any that did not fit
        near = 1 if context.far else min(len(self.old.nodes), 2)
        if context.refusals is not None and (matcher.failure.progress + 1) // 2 >= near:
            context.refuse(self.name, op, matcher.failure.sentence, matcher.failure.progress)
        return False

    def _refusal(self, graph: Graph, match: Match, alone: bool = True) -> str | None:
        return (
            self._interior_refusal(graph, match, alone)
            or _misfit(match)
            or (None if self.quantized else quantized_refusal(match))
            or self._condition_refusal(match)
        )

    def _condition_refusal(self, match: Match) -> str | None:
        sentences = (self._refused(name, match) for name in self.definition().conditions)
        return next((sentence for sentence in sentences if sentence is not None), None)

    def _refused(self, condition: str, match: Match) -> str | None:
        """What ``condition`` has against the match; what is unsound about the model is against it, too."""
        try:
            sentence: str | None = self._call(condition, match)
        except ModelError as error:
            return f"%{match.value(self.old.root.results[0]).name}: {error.message}"
        return sentence

    def _interior_refusal(self, graph: Graph, match: Match, alone: bool) -> str | None:
        """Interior values must have no reader outside the picture and be no output of the graph.

        ``alone``: whether readers that are rewritten alike are looked at, for ``spread``.
        """
        matched = set(match.ops.values())
        for node in self.old.nodes[:-1]:
            for name in node.results:
                if name in self.shared:
                    continue
                value = match.value(name)
                if graph.is_output(value):
                    return f"%{value.name}: is an output of the graph, the picture would lose it"
                if name in self.spread and not alone:
                    continue
                outside = value.other_user(matched)
                if outside is not None and name in self.spread and value.use_count <= MOST_ALIKE:
                    others = (user for user in value.users if user not in matched)
                    outside = next((u for u in others if not self._is_alike(graph, u, name, value)), None)
                if outside is not None:
                    results = "".join(f" %{v.name}" for v in outside.results[:1])
                    return f"%{value.name}: is also read by {type(outside).__name__}{results}"
        return None

    def _is_alike(self, graph: Graph, user: Op, name: str, value: Value) -> bool:
        """Whether ``user``, which reads ``value``, is rewritten with it as the interior value ``name``."""
        found = Matcher(self.old, False, self.quantized).matches(user)
        return any(m.value(name) is value and self._refusal(graph, m, False) is None for m in found)

    def _call(self, name: str, match: Match) -> Any:
        wanted = self.definition().parameters[name]
        return getattr(self, name)(**{p: self._argument(p, match) for p in wanted})

    def _argument(self, name: str, match: Match) -> Any:
        if name == "match":
            return match
        if name in match.values:
            value = match.values[name]
            return (
                value
                if value is None or name not in self.definition().constant_names
                else attentive(value.array())
            )
        if name in match.dims:
            return match.dims[name]
        return match.attributes.get(name)

    # -- applying ------------------------------------------------------------------------------

    def _apply(self, graph: Graph, root: Op, match: Match) -> str | None:
        """Change the graph; or a sentence where the new operators do not fit, and nothing changed."""
        old = match.value(self.old.root.results[0])
        if self.new.alias is not None:
            return self._apply_alias(graph, root, old, match)
        underflows: list[str] = []
        with np.errstate(all="ignore", under="call", call=lambda kind, flag: underflows.append(kind)):
            computed = self._call("constants", match)
        sentence = range_refusal(computed, bool(underflows), match)
        if sentence is not None:
            return sentence
        built = Builder(graph, match, computed, old.name)
        try:
            ops = [built.op(node) for node in self.new.nodes]
        except RewriteError:  # a mistake of the pass, not of the model
            built.discard()
            raise
        except CirclekitError as error:
            built.discard()
            return f"%{old.name}: {error.message}"
        for name in self.old.root.results:
            sentence = type_refusal(match.value(name), built.values[name])
            if sentence is not None:
                built.discard()
                return sentence
        for name in self.old.root.results:
            made = built.values[name]
            producer, at = made.producer, made.result_index
            if producer is not None:
                producer.take_result(at, match.value(name))
        for op in ops:
            for value in op.results:
                value.name = value.name or graph.unique_name(f"{old.name}/{type(op).__name__}")
            graph.insert_before(root, op)
        self._drop(graph, match)
        return None

    def _apply_alias(self, graph: Graph, root: Op, old: Value, match: Match) -> str | None:
        new = match.values[self.new.alias or ""]
        if new is None:
            return f"%{old.name}: the operand {self.new.alias} is absent"
        if old.dtype is not new.dtype or old.shape is None or old.shape != new.shape:
            return f"%{old.name}: is {old.type}, %{new.name} is {new.type}"
        if old.quantization != new.quantization:
            return f"%{old.name}: has other quantization parameters than %{new.name}"
        if not graph.can_stand_for(old, new):
            return f"%{old.name}: is an output of the graph, and so is, or is an input, %{new.name}"
        graph.replace(old, new)
        self._drop(graph, match)
        return None

    def _drop(self, graph: Graph, match: Match) -> None:
        """Remove the matched operators that nothing reads any more, the last one first."""
        for node in reversed(self.old.nodes):
            op = match.ops[node.results[0]]
            if op.graph is graph and not any(v.use_count or graph.is_output(v) for v in op.results):
                graph.remove(op)


class Rules(GraphPass):
    """A pass that is several pictures, tried in their order; the pictures themselves have no name."""

    rules: ClassVar[tuple[type[Rewrite], ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for rule in cls.rules:
            rule.name = cls.name

    @classmethod
    def members(cls) -> tuple[type[Rewrite], ...]:
        """``rules``; a pass of very many makes them here, when they are first wanted."""
        return cls.rules

    def run_graph(self, graph: Graph, context: Context) -> int:
        if context.refusals is None:
            return sum(rule().run_graph(graph, context) for rule in self.members())
        refusals: list[Refusal] = []
        inner = replace(context, refusals=refusals)
        changes = sum(rule().run_graph(graph, inner) for rule in self.members())
        context.refusals += _furthest(refusals)
        return changes


def _furthest(refusals: list[Refusal]) -> list[Refusal]:
    """For each operator that is still there, the refusal of the picture that came closest."""
    best: dict[Op, Refusal] = {}
    for refusal in refusals:
        known = best.get(refusal.op)
        if refusal.op.graph is not None and (known is None or refusal.progress > known.progress):
            best[refusal.op] = refusal
    return list(best.values())


def _misfit(match: Match) -> str | None:
    """What is wrong with an operator of the match: a folded constant may show that it never fitted."""
    return next((s for s in map(_misfit_of, match.ops.values()) if s is not None), None)


def _misfit_of(op: Op) -> str | None:
    try:
        check_op(op)
    except UnsupportedError:  # it has no rule
        return None
    except ModelError as error:
        return f"%{op.output.name}: {error.message}"
    return None
