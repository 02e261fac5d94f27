# SPDX-License-Identifier: Apache-2.0
"""Unify a picture with a graph, from its root backwards, with backtracking; remember the furthest failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from circlekit.ir.op import Attribute, Op
from circlekit.ir.value import Array, Value, format_shape
from circlekit.rewrite.picture import AttributePattern, Node, OperandPattern, Picture

NONE_MATCHED = 0


class Match(NamedTuple):
    """What the names of a picture stand for.

    ``values``: operands and results, None for one that is absent; ``ops``: by the name of each result;
    ``dims``: the capital letters; ``attributes``: those with a name.
    """

    values: dict[str, Value | None]
    ops: dict[str, Op]
    dims: dict[str, int]
    attributes: dict[str, Any]

    def value(self, name: str) -> Value:
        """The value called ``name``, which is there."""
        value = self.values[name]
        if value is None:
            raise KeyError(name)
        return value

    def array(self, name: str) -> Array | None:
        """The constant called ``name``, None where it is absent."""
        value = self.values[name]
        return None if value is None else value.array()

    def with_value(self, name: str, value: Value | None) -> Match:
        return Match({**self.values, name: value}, self.ops, self.dims, self.attributes)

    def with_dims(self, dims: dict[str, int]) -> Match:
        return Match(self.values, self.ops, dims, self.attributes)

    def with_attributes(self, attributes: dict[str, Any]) -> Match:
        return Match(self.values, self.ops, self.dims, {**self.attributes, **attributes})

    def with_op(self, node: Node, op: Op, attributes: dict[str, Any]) -> Match:
        names = dict.fromkeys(node.results, op)
        values = dict(zip(node.results, op.results, strict=False))
        return Match(
            {**self.values, **values}, {**self.ops, **names}, self.dims, {**self.attributes, **attributes}
        )


@dataclass(eq=False, repr=False)
class Failure:
    """Why the furthest attempt ended.  ``progress`` counts the operators that fitted until then.

    ``vague``: whether the operands may merely have been tried in the wrong order.
    """

    progress: int = NONE_MATCHED
    sentence: str = ""
    vague: bool = False


class Matcher:
    """Matches of one picture.  With ``explain`` the furthest failure is described, else nothing is.

    ``quantized``: attributes that matter for quantized data alone count too.
    """

    def __init__(self, picture: Picture, explain: bool = False, quantized: bool = True) -> None:
        self.picture = picture
        self.quantized = quantized
        self.explain = explain
        self.failure = Failure()
        interior = picture.producer
        self.makers = {
            id(node): [interior[o.name].kinds for o in node.operands if o.name in interior]
            for node in picture.nodes
        }
        # To explain, operands that the picture makes come first: one wrong number behind them is a near miss.
        self.orders = {
            id(node): sorted(
                range(len(node.operands)), key=lambda i: explain and node.operands[i].name not in interior
            )
            for node in picture.nodes
        }

    def matches(self, root: Op) -> Iterator[Match]:
        """Every way in which the picture fits with ``root`` as its last operator."""
        self.failure = Failure()
        yield from self._op(self.picture.root, root, Match({}, {}, {}, {}))

    def part(self, node: Node, op: Op) -> tuple[int, str, int]:
        """How many operators fit from ``node`` backwards, 0 where not all do; else why not, and how far."""
        self.failure = Failure()
        match = next(self._op(node, op, Match({}, {}, {}, {})), None)
        count = 0 if match is None else len({id(o) for o in match.ops.values()})
        return count, self.failure.sentence, self.failure.progress

    def refuse(self, progress: int, sentence: str, vague: bool = False) -> None:
        """Keep the sentence of the attempt that came furthest (the first of several that is not vague)."""
        known = self.failure
        if progress > known.progress or (progress == known.progress and known.vague and not vague):
            self.failure = Failure(progress, sentence, vague)

    # Progress: each operator of the picture that was found counts 2; its kind alone counts 1.

    def _op(self, node: Node, op: Op, match: Match) -> Iterator[Match]:
        if not node.fits(op) or not (self.explain or self._plausible(node, op)):
            return
        done = self._progress(match)
        if not self._arity(node, op, done + 1):
            return
        if not self.explain:
            bound = self._attributes(node, op, match, done + 1)
            if bound is not None:
                yield from self._orders(node, op, match.with_op(node, op, bound))
            return
        # Attributes last: a picture that fits but for one of them is the nearest miss there is.
        for full in self._orders(node, op, match.with_op(node, op, {})):
            bound = self._attributes(node, op, full, self._progress(full))
            if bound is not None:
                yield full.with_attributes(bound)

    def _progress(self, match: Match) -> int:
        return 2 * len({id(o) for o in match.ops.values()}) if self.explain else 0

    def may_fit(self, root: Op) -> bool:
        """Whether it is worth while to look for matches with this root: mostly not, and that is soon seen."""
        return self.explain or self._plausible(self.picture.root, root)

    def _plausible(self, node: Node, op: Op) -> bool:
        """Whether each operand that the picture makes comes from such an operator."""
        wanted = self.makers[id(node)]
        if not wanted:
            return True
        makers = [value.producer for value in op.inputs if value is not None]
        return all(any(isinstance(m, kinds) for m in makers) for kinds in wanted)

    def _orders(self, node: Node, op: Op, match: Match) -> Iterator[Match]:
        """Match the operands, in both orders where the operator allows it."""
        yield from self._operands(node, op.inputs, 0, match)
        first, second = [*op.inputs, None, None][:2]
        if op.commutative and first is not second:
            yield from self._operands(node, [second, first, *op.inputs[2:]], 0, match)

    def _attributes(self, node: Node, op: Op, match: Match, progress: int) -> dict[str, Any] | None:
        bound: dict[str, Any] = {}
        for spec in op.attributes:
            pattern = node.attributes.get(spec.name)
            idle = spec.quantized_only and not self.quantized
            if pattern is None and (idle or spec.name in node.carried):
                continue
            value = getattr(op, spec.name)
            wanted = _wanted(pattern, spec, match, bound)
            if wanted is not None and not any(_same(value, choice) for choice in wanted):
                if self.explain:
                    either = " or ".join(map(_show, wanted))
                    self.refuse(
                        progress,
                        f"%{op.output.name}: {spec.name} is {_show(value)}, the picture wants {either}",
                    )
                return None
            if pattern is not None and pattern.bind:
                bound[pattern.bind] = value
        return bound

    def _arity(self, node: Node, op: Op, progress: int) -> bool:
        places = range(len(node.operands), len(op.inputs))
        extra = next((index for index in places if op.inputs[index] is not None), None)
        if extra is not None and self.explain:
            name = op.operands[min(extra, len(op.operands) - 1)].name if op.operands else str(extra)
            self.refuse(
                progress, f"%{op.output.name}: has an operand {name}, the picture has no place for it"
            )
        return extra is None

    def _operands(self, node: Node, inputs: list[Value | None], done: int, match: Match) -> Iterator[Match]:
        """Match all but ``done`` operands, in the order of ``self.orders``."""
        if done == len(node.operands):
            yield match
            return
        at = self.orders[id(node)][done]
        value = inputs[at] if at < len(inputs) else None
        for further in self._operand(node.operands[at], value, match):
            yield from self._operands(node, inputs, done + 1, further)

    def _operand(self, pattern: OperandPattern, value: Value | None, match: Match) -> Iterator[Match]:
        progress = self._progress(match)
        if pattern.name is None:
            if value is not None and _equals_literal(value, pattern.literal):
                yield match
            elif self.explain and value is not None:
                self.refuse(progress, f"%{value.name}: the picture wants the constant {pattern.literal}")
            return
        if value is None:
            if pattern.optional and match.values.get(pattern.name, None) is None:
                yield match.with_value(pattern.name, None)
            return
        node = self.picture.producer.get(pattern.name)
        if match.values.get(pattern.name, value) is not value:
            if self.explain:
                sentence = f"%{value.name}: the picture wants the same value in two places"
                self.refuse(progress, sentence, value.is_const)
            return
        dims = self._type(pattern, value, match, progress)
        if dims is None:
            return
        match = match.with_dims(dims) if dims is not match.dims else match
        if pattern.name in match.values:
            yield match
        elif node is None:
            yield match.with_value(pattern.name, value)
        else:
            yield from self._producer(pattern.name, node, value, match, progress)

    def _producer(self, name: str, node: Node, value: Value, match: Match, progress: int) -> Iterator[Match]:
        op = value.producer
        at = node.results.index(name)
        if op is not None and node.fits(op) and op.results[at] is value:
            yield from self._op(node, op, match)
        elif self.explain:
            found = "a constant" if value.is_const else "an input" if op is None else type(op).__name__
            sentence = f"%{value.name}: comes from {found}, the picture wants {node.kind_names()}"
            self.refuse(progress, sentence, value.is_const)

    def _type(
        self, pattern: OperandPattern, value: Value, match: Match, progress: int
    ) -> dict[str, int] | None:
        """The dims with those of this operand added, or None where its type does not fit."""
        if pattern.const and (value.data is None or value.is_variable):
            if self.explain:
                self.refuse(
                    progress, f"%{value.name}: is not constant, the picture wants {pattern.wanted_type()}"
                )
            return None
        if pattern.const and not value.is_plain:
            if self.explain:
                how = "packed" if value.dtype.numpy is None else "sparse or compressed"
                self.refuse(
                    progress, f"%{value.name}: is {how} {value.dtype.short}, plain elements are wanted"
                )
            return None
        if pattern.dtype is not None and value.dtype is not pattern.dtype:
            if self.explain:
                self.refuse(
                    progress,
                    f"%{value.name}: is {value.dtype.short}, the picture wants {pattern.dtype.short}",
                )
            return None
        if pattern.dims is None:
            return match.dims
        dims = unify(pattern.dims, value.shape, match.dims)
        if dims is None and self.explain:
            letters = [str(d).split("|")[0] for d in pattern.dims]
            known = {letter: match.dims[letter] for letter in letters if letter in match.dims}
            where = ", ".join(f"{name} = {size}" for name, size in known.items())
            self.refuse(
                progress,
                f"%{value.name}: shape is {format_shape(value.shape)}, the picture wants "
                f"[{','.join(map(str, pattern.dims))}]" + (f" with {where}" if where else ""),
            )
        return dims


def unify(
    pattern: tuple[int | str, ...], shape: tuple[int | None, ...] | None, dims: dict[str, int]
) -> dict[str, int] | None:
    """``dims`` with what ``shape`` tells of the letters in ``pattern`` added; None where they disagree."""
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
    found = dict(dims)
    for want, size in zip(pattern, shape, strict=True):
        if want == "_":
            continue
        if isinstance(want, str) and "|" in want:
            want, other = want.split("|")
            if size == int(other):
                continue
        if size is None or (isinstance(want, int) and want != size):
            return None
        if isinstance(want, str) and found.setdefault(want, size) != size:
            return None
    return found


def _wanted(
    pattern: AttributePattern | None, spec: Attribute, match: Match, bound: dict[str, Any]
) -> tuple[Any, ...] | None:
    """The values that fit, None for any.  A name that is bound already fits its value alone."""
    if pattern is None:
        return (spec.default,)
    if pattern.bind:
        for known in (match.attributes, bound):
            if pattern.bind in known:
                return (known[pattern.bind],)
    return pattern.choices


def _same(a: Any, b: Any) -> bool:
    return a is b or bool(a == b)


def _show(value: Any) -> str:
    return str(getattr(value, "name", value))


def _equals_literal(value: Value, literal: Any) -> bool:
    if value.data is None or not value.is_plain or value.is_variable:
        return False
    wanted = np.asarray(literal).astype(value.data.dtype)
    if wanted.dtype.kind in "iu" and not np.array_equal(wanted, literal):
        return False  # no integer is 0.5, and none of 8 bits is 300
    if wanted.ndim == 0:
        return value.data.size == 1 and bool(value.data.reshape(-1)[0] == wanted)
    return value.data.shape == wanted.shape and bool(np.array_equal(value.data, wanted))
