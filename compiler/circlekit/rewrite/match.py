# SPDX-License-Identifier: Apache-2.0
"""Match a picture against a graph, from its root (last operator) backwards; backtrack over operand orders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from circlekit.errors import counted
from circlekit.ir.op import Attribute, Op
from circlekit.ir.value import Array, Value, format_shape
from circlekit.rewrite.picture import AttributePattern, Node, OperandPattern, Picture


class Match(NamedTuple):
    """What the names in a picture stand for in one place of a graph.

    ``values``: operands and results by name, None for an absent operand.  ``ops``: operators by the names of
    their results.  ``dims``: sizes by capital letter.  ``attributes``: attribute values by the name after
    ``=``, such as ``a`` in ``{act: any = a}``.
    """

    values: dict[str, Value | None]
    ops: dict[str, Op]
    dims: dict[str, int]
    attributes: dict[str, Any]

    def value(self, name: str) -> Value:
        """Return the value that the picture calls ``name``; raise KeyError if it is absent."""
        value = self.values[name]
        if value is None:
            raise KeyError(name)
        return value

    def array(self, name: str) -> Array | None:
        """Return the elements of the constant that the picture calls ``name``; None if it is absent."""
        value = self.values[name]
        return None if value is None else value.array()

    def with_value(self, name: str, value: Value | None) -> Match:
        """Return a copy of this match in which ``name`` stands for ``value``."""
        return self._replace(values={**self.values, name: value})

    def with_op(self, node: Node, op: Op) -> Match:
        """Return a copy of this match in which ``node`` and its results stand for ``op`` and its results."""
        values = {**self.values, **dict(zip(node.results, op.results, strict=False))}
        return self._replace(values=values, ops={**self.ops, **dict.fromkeys(node.results, op)})


@dataclass(eq=False, repr=False)
class Failure:
    """Why there is no match: ``sentence`` says why the attempt with the most progress failed.

    ``progress``: 2 for each operator of the attempt, but 1 for an operator that has more operands or fewer
    results than the picture; 1 more if the whole picture matches and only the rewrite refuses.
    ``is_vague``: whether the attempt may have failed only because the operands of a commutative operator were
    tried in the wrong order.  ``ops``: the operators of the attempt.
    """

    progress: int = 0
    sentence: str = ""
    is_vague: bool = False
    ops: tuple[Op, ...] = ()


class Matcher:
    """Finds matches of one picture.

    ``explain``: whether to record in ``failure`` the attempt with the most progress; this takes longer.
    ``quantized``: whether values may be quantized.  If not, attributes that have an effect only on quantized
    values may have any value where the picture does not mention them.
    """

    def __init__(self, picture: Picture, explain: bool = False, quantized: bool = True) -> None:
        self.picture = picture
        self.quantized = quantized
        self.explain = explain
        self.failure = Failure()
        interior = picture.producer
        # for each node, the classes of the operators that must produce its operands
        self._producer_kinds = {
            id(node): [interior[o.name].kinds for o in node.operands if o.name in interior]
            for node in picture.nodes
        }
        # for each node, the order in which its operands are matched.  Operands that the picture produces come
        # first: if then only a constant is wrong, the attempt has much progress.
        self._operand_order = {
            id(node): sorted(range(len(node.operands)), key=lambda i: node.operands[i].name not in interior)
            for node in picture.nodes
        }

    def matches(self, root: Op) -> Iterator[Match]:
        """Yield every match with ``root`` as the last operator of the picture."""
        self.failure = Failure()
        yield from self._match_op(self.picture.root, root, Match({}, {}, {}, {}))

    def part(self, node: Node, op: Op) -> tuple[int, str, int]:
        """Match the part of the picture that ends with ``node``; ``node`` stands for ``op``.

        Return (the number of operators that matched, sentence, progress).  If the part does not match, the
        number is 0; the sentence and the progress are those of the recorded ``Failure``.
        """
        self.failure = Failure()
        match = next(self._match_op(node, op, Match({}, {}, {}, {})), None)
        count = 0 if match is None else len({id(o) for o in match.ops.values()})
        return count, self.failure.sentence, self.failure.progress

    def refuse(self, match: Match, progress: int, sentence: str, is_vague: bool = False) -> None:
        """Record why ``match`` failed if it has more progress than the recorded failure.

        With equal progress, replace a vague failure by one that is not vague.
        """
        last = self.failure
        if progress > last.progress or (progress == last.progress and last.is_vague and not is_vague):
            self.failure = Failure(progress, sentence, is_vague, tuple(dict.fromkeys(match.ops.values())))

    # -- operators -----------------------------------------------------------------------------

    def _match_op(self, node: Node, op: Op, match: Match) -> Iterator[Match]:
        """Yield each extension of ``match`` in which ``node`` stands for ``op``.

        The nodes before ``node`` then stand for the producers of the operands of ``op``.
        """
        if not node.fits(op) or not (self.explain or self._has_producers(node, op)):
            return
        progress = self._progress(match)
        if len(op.results) < len(node.results):  # their number may vary, as that of SPLIT
            if self.explain and op.results:
                found = f"has {counted(len(op.results), 'result')}, the picture has {len(node.results)}"
                self.refuse(match, progress + 1, f"%{op.output.name}: {found}")
            return
        further = range(len(node.operands), len(op.inputs))  # operands for which the picture has no place
        extra = next((index for index in further if op.inputs[index] is not None), None)
        if extra is not None:
            if self.explain:
                spec = op.operand_spec(extra)
                name = str(extra) if spec is None else spec.name
                sentence = f"%{op.output.name}: has an operand {name}, the picture has no place for it"
                self.refuse(match, progress + 1, sentence)
            return
        # attributes come last: a match in which only an attribute differs is the nearest
        for full in self._match_orders(node, op, match.with_op(node, op)):
            bound = self._bind_attributes(node, op, full, self._progress(full))
            if bound is not None:
                yield full._replace(attributes={**full.attributes, **bound})

    def _progress(self, match: Match) -> int:
        """Return the progress of ``match`` (see ``Failure``); 0 if failures are not recorded."""
        return 2 * len({id(o) for o in match.ops.values()}) if self.explain else 0

    def _has_producers(self, node: Node, op: Op) -> bool:
        """Return whether the operands of ``op`` have producers of the kinds from which ``node`` reads."""
        expected = self._producer_kinds[id(node)]
        if not expected:
            return True
        producers = [value.producer for value in op.inputs if value is not None]
        return all(any(isinstance(producer, kinds) for producer in producers) for kinds in expected)

    def _match_orders(self, node: Node, op: Op, match: Match) -> Iterator[Match]:
        """Yield each way to extend ``match`` by the operands of ``op``.

        If ``op`` is commutative, also try its first two operands in the other order.
        """
        yield from self._match_operands(node, op.inputs, 0, match)
        first, second = [*op.inputs, None, None][:2]
        if op.commutative and first is not second:
            yield from self._match_operands(node, [second, first, *op.inputs[2:]], 0, match)

    # -- attributes ----------------------------------------------------------------------------

    def _bind_attributes(self, node: Node, op: Op, match: Match, progress: int) -> dict[str, Any] | None:
        """Return the attribute values to which ``node`` gives names; None if an attribute does not match."""
        bound: dict[str, Any] = {}
        for spec in op.attributes:
            pattern = node.attributes.get(spec.name)
            has_no_effect = spec.quantized_only and not self.quantized
            # ``after`` copies attributes in ``carried``, so they may have any value
            if pattern is None and (has_no_effect or spec.name in node.carried):
                continue
            value = getattr(op, spec.name)
            expected = _expected_values(pattern, spec, match, bound)
            if expected is not None and not any(value is e or bool(value == e) for e in expected):
                if self.explain:
                    either = " or ".join(map(_show, expected))
                    found = f"%{op.output.name}: {spec.name} is {_show(value)}"
                    self.refuse(match, progress, f"{found}, expected {either}")
                return None
            if pattern is not None and pattern.bind:
                bound[pattern.bind] = value
        return bound

    # -- operands ------------------------------------------------------------------------------

    def _match_operands(
        self, node: Node, inputs: list[Value | None], done: int, match: Match
    ) -> Iterator[Match]:
        """Yield each way to extend ``match`` by the operands of ``node``; the first ``done`` have matched."""
        if done == len(node.operands):
            yield match
            return
        at = self._operand_order[id(node)][done]
        value = inputs[at] if at < len(inputs) else None
        for further in self._match_operand(node.operands[at], value, match):
            yield from self._match_operands(node, inputs, done + 1, further)

    def _match_operand(self, pattern: OperandPattern, value: Value | None, match: Match) -> Iterator[Match]:
        """Yield each way to extend ``match`` by ``value`` (None: absent) in the place of ``pattern``."""
        progress = self._progress(match)
        if pattern.name is None:
            if value is not None and _equals_literal(value, pattern.literal):
                yield match
            elif self.explain and value is not None:
                self.refuse(match, progress, f"%{value.name}: expected the constant {pattern.literal}")
            return
        if value is None:
            if pattern.optional and match.values.get(pattern.name) is None:
                yield match.with_value(pattern.name, None)
            return
        if match.values.get(pattern.name, value) is not value:
            if self.explain:
                sentence = f"%{value.name}: expected the same value in two places"
                # a constant: perhaps the operands of a commutative operator are in the other order
                self.refuse(match, progress, sentence, is_vague=value.is_const)
            return
        dims = self._match_type(pattern, value, match, progress)
        if dims is None:
            return
        match = match if dims is match.dims else match._replace(dims=dims)
        node = self.picture.producer.get(pattern.name)
        if pattern.name in match.values:
            yield match
        elif node is None:
            yield match.with_value(pattern.name, value)
        else:
            op = value.producer
            at = node.results.index(pattern.name)
            fits = op is not None and node.fits(op)
            if op is not None and fits and all(result is value for result in op.results[at : at + 1]):
                yield from self._match_op(node, op, match)
            elif self.explain:
                source = origin(value)
                found = f"comes from {source}, expected {node.kind_names()}"
                if fits:
                    found = f"is another result of {source} than {pattern.name} in the picture"
                self.refuse(match, progress, f"%{value.name}: {found}", is_vague=value.is_const)

    def _match_type(
        self, pattern: OperandPattern, value: Value, match: Match, progress: int
    ) -> dict[str, int] | None:
        """Return ``match.dims`` and the letters that ``value`` adds; None if its type does not match."""
        if pattern.const and (value.data is None or value.is_variable):
            found, expected = "is not constant", pattern.type_text()
        elif pattern.const and not value.is_plain:
            how = "packed" if value.dtype.numpy is None else "sparse or compressed"
            found, expected = f"is {how} {value.dtype.short}", "plain elements"
        elif pattern.dtype is not None and value.dtype is not pattern.dtype:
            found, expected = f"is {value.dtype.short}", pattern.dtype.short
        else:
            dims = match.dims if pattern.dims is None else unify(pattern.dims, value.shape, match.dims)
            if dims is not None or pattern.dims is None or not self.explain:
                return dims
            letters = dict.fromkeys(str(d).split("|")[0] for d in pattern.dims)
            known = ", ".join(f"{x} = {match.dims[x]}" for x in letters if x in match.dims)
            found = f"shape is {format_shape(value.shape)}"
            expected = f"[{','.join(map(str, pattern.dims))}]" + (f" with {known}" if known else "")
        if self.explain:
            self.refuse(match, progress, f"%{value.name}: {found}, expected {expected}")
        return None


def unify(
    pattern: tuple[int | str, ...], shape: tuple[int | None, ...] | None, dims: dict[str, int]
) -> dict[str, int] | None:
    """Match ``shape`` against ``pattern``, the dimensions that a picture gives.

    A dimension of ``pattern`` is a size, a capital letter (the same size everywhere), ``O|1`` (O or 1) or
    ``_`` (any size; only this one matches an unknown size).  A leading ``*`` is any number of ones; a scalar
    then matches as if all its dimensions were 1.
    ``dims``: the sizes of the letters so far.  Return them with the letters that ``shape`` adds; None if
    ``shape`` does not match.
    """
    if shape is None:
        return None
    if pattern[:1] == ("*",):
        pattern = pattern[1:]
        lead = len(shape) - len(pattern)
        if not shape:
            shape = (1,) * len(pattern)
        elif lead < 0 or any(d != 1 for d in shape[:lead]):
            return None
        else:
            shape = shape[lead:]
    if len(pattern) != len(shape):
        return None
    sizes = dict(dims)
    for expected, size in zip(pattern, shape, strict=True):
        if expected == "_":
            continue
        if isinstance(expected, str) and "|" in expected:
            expected, alternative = expected.split("|")
            if size == int(alternative):
                continue
        if size is None or (isinstance(expected, int) and expected != size):
            return None
        if isinstance(expected, str) and sizes.setdefault(expected, size) != size:
            return None
    return sizes


def _expected_values(
    pattern: AttributePattern | None, spec: Attribute, match: Match, bound: dict[str, Any]
) -> tuple[Any, ...] | None:
    """Return the attribute values that match; None if every value matches.

    An attribute that the picture does not mention must have its default.  If the picture gives an attribute a
    name that already stands for a value (in ``match`` or ``bound``), the attribute must have this value.
    """
    if pattern is None:
        return (spec.default,)
    values = bound | match.attributes
    return (values[pattern.bind],) if pattern.bind in values else pattern.choices


def origin(value: Value) -> str:
    """Return where ``value`` comes from, as words for a message.

    These are the name of its producer's class, or "a constant", "a variable" or "an input".
    """
    if value.is_const or value.is_variable:
        return "a constant" if value.is_const else "a variable"
    return "an input" if value.producer is None else type(value.producer).__name__


def _show(value: Any) -> str:
    """Return an attribute value as text: an enum member by its name."""
    return str(getattr(value, "name", value))


def _equals_literal(value: Value, literal: Any) -> bool:
    """Return whether ``value`` is a plain constant (neither packed nor sparse) that equals ``literal``.

    A number equals a constant of one element and any rank.
    """
    if value.data is None or not value.is_plain or value.is_variable:
        return False
    expected = np.asarray(literal).astype(value.data.dtype)
    if expected.dtype.kind in "iub" and not np.array_equal(expected, literal):
        return False  # the literal, such as 0.5 or 300, does not exist in the dtype
    if expected.ndim == 0:
        return value.data.size == 1 and bool(value.data.reshape(-1)[0] == expected)
    return value.data.shape == expected.shape and bool(np.array_equal(value.data, expected))
