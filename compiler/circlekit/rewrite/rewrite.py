# SPDX-License-Identifier: Apache-2.0
"""Passes declared by two pictures (``before`` and ``after``), conditions and computed constants."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, TypeVar

import numpy as np

from circlekit.errors import CirclekitError, ModelError, RewriteError
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.resources.scratch_files import with_results_in_files
from circlekit.ir.text.lines import print_op, short_op
from circlekit.ir.value import Value, same_grid
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.build import (
    Builder,
    misfit_refusal,
    quantized_refusal,
    range_refusal,
    rank_refusal,
    type_refusal,
    variable_refusal,
)
from circlekit.rewrite.definition import Definition, define, fill_template, is_template, may_match
from circlekit.rewrite.match import Match, Matcher
from circlekit.rewrite.partial_match import partial_matches
from circlekit.rewrite.picture import Picture
from circlekit.rewrite.target_rules import TargetRules

F = TypeVar("F", bound=Callable[..., str | None])

MAX_USERS_COMPARED = 32
"""The other users of a value in ``Rewrite.spread`` are examined if the value has at most this many uses.

If it has more uses, any user outside the match leads to a refusal.
"""

MAX_GROWING_REWRITES = 100
"""One value may be rewritten this many times, plus once for each operator of the graph.

After more rewrites, the pass is assumed not to terminate.
"""


def condition(method: F) -> F:
    """Mark a method of a Rewrite as a condition.

    The method returns None if the condition holds, else the sentence of the refusal.
    Raise RewriteError if ``method`` is not callable.
    """
    if not callable(method):
        raise RewriteError(f"@condition: expected a method, got {method!r}")
    method.is_condition = True  # type: ignore[attr-defined]  # read by define
    return method


class Rewrite(GraphPass):
    """Replace each match of the picture ``before`` by the picture ``after`` (docs/design.md).

    A picture is a small graph as text; its last operator is the root, results of the others are interior.
    The parameters of ``constants`` and of the conditions are names in ``before``.  They receive:

    - an operand marked ``const``: its array, or None if it is absent;
    - any other operand or result: its Value, or None if it is absent;
    - a capital letter: the size of this dimension.  None if only absent operands have it, or if ``O|1``
      matched a 1;
    - a name of an attribute value: this value;
    - ``match``: the Match.

    ``constants`` returns a dict for the names that only ``after`` has.  For an operand: an array (the data of
    a new constant), a Value, or None (absent).  For an attribute: its value.
    The arrays that ``constants`` and the conditions receive are read-only.
    A ModelError in a condition or in ``constants``, such as that of ``Value.known_shape``, is a refusal.

    A class whose texts contain ``$words`` is a template; its subclasses give the words as class keywords.

    ``shared``: interior results that may have users outside the match, or be outputs of the graph; their
    producers then stay.
    ``spread``: interior results that may have users outside the match if each of these users is the root of
    another match that may be rewritten.  They must not be outputs of the graph.
    ``approximate``: values may change beyond rounding, as in ONE; if true, the rewrite is applied only if the
    user names the pass.
    ``quantized``: quantized values may take part; the rewrite must keep their parameters right.
    """

    before: ClassVar[str] = ""
    after: ClassVar[str] = ""
    shared: ClassVar[tuple[str, ...]] = ()
    spread: ClassVar[tuple[str, ...]] = ()
    quantized: ClassVar[bool] = False
    approximate: ClassVar[bool] = False
    obeys_target = True
    _definition: ClassVar[Definition]

    def __init_subclass__(cls, **words: Any) -> None:
        fill_template(cls, words)
        if is_template(cls):
            return
        if cls.before and cls.__module__.partition(".")[0] != __name__.partition(".")[0]:
            cls.definition()  # a pass of another package is checked now, so its author sees the error at once
        super().__init_subclass__()  # registers the pass, so this comes after the check

    @classmethod
    def member(cls, **words: Any) -> type[Rewrite]:
        """Return the subclass of a template with these values of its ``$words``."""
        texts = (word for word in words.values() if isinstance(word, str))
        name = "_".join([cls.__name__, *(re.sub(r"\W+", "_", text).strip("_") for text in texts)])
        body = {"__module__": cls.__module__}
        return types.new_class(name, (cls,), words, lambda namespace: namespace.update(body))

    @classmethod
    def members(cls, **words: Sequence[str]) -> tuple[type[Rewrite], ...]:
        """Return a subclass of a template for each combination of the values of its ``$words``."""
        return tuple(cls.member(**dict(zip(words, texts, strict=True))) for texts in product(*words.values()))

    @classmethod
    def definition(cls) -> Definition:
        """Return the parsed and checked pictures; circlekit's own pictures are parsed when first needed."""
        if "_definition" not in cls.__dict__:
            cls._definition = define(cls, cls.before, cls.after, cls.constants is not Rewrite.constants)
        return cls._definition

    @property
    def old(self) -> Picture:
        """The parsed picture ``before``."""
        return self.definition().before

    @property
    def new(self) -> Picture:
        """The parsed picture ``after``."""
        return self.definition().after

    def constants(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """Return by name the operands and attribute values that only ``after`` has; see the class."""
        return {}

    # -- matching ------------------------------------------------------------------------------

    def run_graph(self, graph: Graph, context: Context) -> int:
        if context.exact and self.approximate:
            return 0
        if context.refusals is None and not may_match(self.before, graph.kinds):
            return 0
        matcher = Matcher(self.old, explain=context.refusals is not None, quantized=self.quantized)
        kinds, limit = self.old.root.kinds, len(graph) + MAX_GROWING_REWRITES
        roots = (op for op in graph.ops if isinstance(op, kinds))
        changes = sum(self._rewrite_root(graph, root, matcher, context, limit) for root in roots)
        if context.partial_matches:
            for op, sentence, progress in partial_matches(matcher, graph):
                context.refuse(self.name, op, sentence, progress, self._full_progress - progress)
        return changes

    @property
    def _full_progress(self) -> int:
        """The progress of a match that only a condition refuses: 2 per operator, and 1 to rank it highest."""
        return 2 * len(self.old.nodes) + 1

    @property
    def _stays_in_place(self) -> bool:
        """Whether the picture replaces a single operator.

        If so, variables are read at the same time as before, and ``variable_refusal`` is not needed.
        """
        return len(self.old.nodes) == 1 and self.new.alias is None

    def wants(self, op: Op) -> bool:
        """Return whether to try matches with root ``op``; subclasses may override this."""
        return True

    def result_obstacle(self, old: Collection[Op], new: Sequence[Op]) -> str | None:
        """Return why ``new`` must not replace ``old``, or None; subclasses may override this."""
        return None

    def _rewrite_root(self, graph: Graph, op: Op, matcher: Matcher, context: Context, limit: int) -> int:
        """Rewrite a match with root ``op``, then a match with the operator that replaced ``op``, and so on.

        Return the number of rewrites.  Raise RewriteError if there are more than ``limit``: then the picture
        matches its own result.
        """
        root: Op | None = op
        changes = 0
        while root is not None and root.graph is graph and isinstance(root, self.old.root.kinds):
            if not root.results or not self.wants(root):
                break
            value = root.output
            if not self._try(graph, root, matcher, context):
                break
            changes += 1
            if changes > limit:
                name = self.name or type(self).__name__
                place = f"its own result at %{value.name} after {changes} rewrites"
                raise RewriteError(f"the pass {name} does not terminate: it still matches {place}")
            root = value.producer
        return changes

    def _try(self, graph: Graph, op: Op, matcher: Matcher, context: Context) -> bool:
        """Rewrite the first match with root ``op`` that nothing refuses; return whether one was rewritten."""
        for match in matcher.matches(op):
            sentence = self._refusal(graph, match)
            if sentence is None and not context.may_rewrite:
                return False
            if sentence is None:
                before = None if context.budget is None else print_op(op)  # for ``count_rewrite``
                sentence = self._apply(graph, op, match, context.target)
                if sentence is None:
                    context.count_rewrite(before)
                    return True
            matcher.refuse(match, self._full_progress, sentence)  # more progress than any partial match
        # at least this many operators must match, else the near miss is not recorded
        required = 1 if context.partial_matches else min(len(self.old.nodes), 2)
        failure = matcher.failure
        if context.refusals is not None and (failure.progress + 1) // 2 >= required:
            missing = self._full_progress - failure.progress
            context.refuse(self.name, op, failure.sentence, failure.progress, missing, failure.ops)
        return False

    # -- refusing ------------------------------------------------------------------------------

    def _refusal(self, graph: Graph, match: Match, compare_users: bool = True) -> str | None:
        """Return why ``match`` must not be rewritten, None if it may be.

        ``compare_users``: see ``_interior_refusal``.
        """
        sentence = (
            self._interior_refusal(graph, match, compare_users)
            or next(filter(None, map(misfit_refusal, match.ops.values())), None)
            or (None if self.quantized else quantized_refusal(match))
            or (None if self._stays_in_place else variable_refusal(match))
        )
        try:
            conditions = self.definition().conditions
            return sentence or next(filter(None, (self._answer(name, match) for name in conditions)), None)
        except ModelError as error:  # an unknown shape, or an invalid model
            return f"%{match.value(self.old.root.results[0]).name}: {error.message}"

    def _answer(self, name: str, match: Match) -> str | None:
        """Return the answer of the condition ``name``; raise RewriteError if it is neither None nor text."""
        answer = self._call(name, match)
        if answer is not None and not (answer and isinstance(answer, str)):
            place = f"condition {name} of {self.name or type(self).__name__}"
            raise RewriteError(f"{place}: expected None if it holds, else a sentence, got {answer!r}")
        return answer

    def _interior_refusal(self, graph: Graph, match: Match, compare_users: bool) -> str | None:
        """Return the refusal of an interior value that has a user outside the match, or is a graph output.

        ``compare_users``: whether the other users of values in ``spread`` are examined.  It is False while
        ``_is_alike`` examines one of these users: then all others are ignored.
        """
        matched = set(match.ops.values())
        for node in self.old.nodes[:-1]:
            for name in node.results:
                if name in self.shared:
                    continue
                value = match.value(name)
                if graph.is_output(value):
                    return f"%{value.name}: is an output of the graph, the picture would lose it"
                if name in self.spread and not compare_users:
                    continue
                outside = value.other_user(matched)
                if outside is not None and name in self.spread and value.use_count <= MAX_USERS_COMPARED:
                    others = (user for user in value.users if user not in matched)
                    outside = next((u for u in others if not self._is_alike(graph, u, name, value)), None)
                if outside is not None:
                    return f"%{value.name}: is also read by {short_op(outside)}"
        return None

    def _is_alike(self, graph: Graph, user: Op, name: str, value: Value) -> bool:
        """Return whether a match with root ``user``, in which ``name`` is ``value``, may be rewritten."""
        found = Matcher(self.old, quantized=self.quantized).matches(user)
        return any(m.value(name) is value and self._refusal(graph, m, False) is None for m in found)

    def _call(self, name: str, match: Match) -> Any:
        """Call the method ``name`` with what its parameters stand for in ``match``.

        From Python 3.11 on, a note on an exception says where it occurred.
        """
        arguments = {p: self._argument(p, match) for p in self.definition().parameters[name]}
        try:
            return getattr(self, name)(**arguments)
        except CirclekitError:
            raise
        except Exception as error:
            if sys.version_info >= (3, 11):
                result = match.value(self.old.root.results[0])
                error.add_note(f"in {name} of {self.name or type(self).__name__}, for %{result.name}")
            raise

    def _argument(self, name: str, match: Match) -> Any:
        """Return what the parameter ``name`` stands for in ``match``; None for an absent operand."""
        if name == "match":
            return match
        if name in match.values:
            value = match.values[name]
            if value is None or name not in self.definition().constant_names:
                return value
            view = value.array().view()
            view.flags.writeable = False  # other operators may use this constant
            return with_results_in_files(view)
        return match.dims[name] if name in match.dims else match.attributes.get(name)

    # -- applying ------------------------------------------------------------------------------

    def _apply(self, graph: Graph, root: Op, match: Match, target: TargetRules | None) -> str | None:
        """Rewrite ``match``.  If ``target`` or a check refuses, return the reason and change nothing."""
        old = match.value(self.old.root.results[0])
        if self.new.alias is not None:
            return self._apply_alias(graph, old, self.new.alias, match)
        underflows: list[str] = []  # numpy adds a word for each underflow
        with np.errstate(all="ignore", under="call", call=lambda kind, flag: underflows.append(kind)):
            try:
                computed = self._call("constants", match)
            except ModelError as error:  # an unknown shape, as in a condition
                return f"%{old.name}: {error.message}"
        if not isinstance(computed, Mapping):
            name = self.name or type(self).__name__
            raise RewriteError(f"`constants` of {name}: expected a dict, got {type(computed).__name__}")
        if (sentence := range_refusal(computed, bool(underflows), match)) is not None:
            return sentence
        built = Builder(graph, match, computed, old.name)
        try:
            ops = [built.op(node) for node in self.new.nodes]
        except RewriteError:  # a mistake in the pass, not in the model
            built.discard()
            raise
        except CirclekitError as error:
            built.discard()
            return f"%{old.name}: {error.message}"
        sentence = self._result_refusal(match, built, target)
        if sentence is not None:
            built.discard()
            return sentence
        for name in self.old.root.results:  # the old results stay, with their names and users
            new = built.values[name]
            if new.producer is not None:
                new.producer.take_result(new.result_index, match.value(name))
        for op in ops:
            for value in op.results:
                value.name = value.name or graph.unique_name(f"{old.name}/{type(op).__name__}")
            graph.insert_before(root, op)
        self._remove_unused(graph, match)
        return None

    def _result_refusal(self, match: Match, built: Builder, target: TargetRules | None) -> str | None:
        """Return why the new operators cannot replace the matched ones; None if they can."""
        before = list(dict.fromkeys(match.ops[node.results[0]] for node in self.old.nodes))
        for name in self.old.root.results:
            old, new = match.value(name), built.values[name]
            sentence = type_refusal(old, new) or rank_refusal(before, built.ops, old, new)
            if sentence is not None:
                return sentence
            if new.producer in built.ops:
                new.quantization = old.quantization  # the old value takes the place of the new one
        sentence = self.result_obstacle(match.ops.values(), built.ops)
        if sentence is None and target is not None:
            sentence = target.refusal(before, built.ops) or target.growth_refusal(before, built.ops)
        return f"%{match.value(self.old.root.results[0]).name}: {sentence}" if sentence else None

    def _apply_alias(self, graph: Graph, old: Value, alias: str, match: Match) -> str | None:
        """Replace the result ``old`` by ``alias``, a value of ``before``; or return why it is impossible."""
        new = match.values[alias]
        if new is None:
            return f"%{old.name}: the operand {alias} is absent"
        if old.dtype is not new.dtype or old.shape != new.shape:
            return f"%{old.name}: is {old.type}, %{new.name} is {new.type}"
        if old.shape is None:
            return f"%{old.name}: has an unknown rank, which may differ from that of %{new.name}"
        if not same_grid(old.quantization, new.quantization):
            return f"%{old.name}: has other quantization parameters than %{new.name}"
        if not graph.can_stand_for(old, new):
            kind = "a variable" if new.is_variable else "an input or an output, too"
            kind = "a constant" if new.is_const else kind
            return f"%{old.name}: is an output of the graph, and %{new.name} is {kind}"
        graph.replace(old, new)
        self._remove_unused(graph, match)
        return None

    def _remove_unused(self, graph: Graph, match: Match) -> None:
        """Remove the matched operators whose results have no use left, users before producers."""
        for node in reversed(self.old.nodes):
            op = match.ops[node.results[0]]
            if op.graph is graph and not any(v.use_count or graph.is_output(v) for v in op.results):
                graph.remove(op)


class Rules(GraphPass):
    """A pass that runs several other passes, mostly Rewrites, in the order of ``rules``.

    These passes have no names of their own and get the name of this pass.
    """

    rules: ClassVar[tuple[type[GraphPass], ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.obeys_target = all(rule.obeys_target for rule in cls.rules)
        for rule in cls.rules:
            rule.name = cls.name

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(rule().run_graph(graph, context) for rule in self.rules)
