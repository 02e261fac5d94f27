# SPDX-License-Identifier: Apache-2.0
"""Create the operators of a rewrite's picture ``after`` for a match of ``before``, and check their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from circlekit.errors import ModelError, RewriteError, UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.resources.scratch_files import moved_to_file
from circlekit.ir.shape_inference import misfit
from circlekit.ir.text.syntax import Symbol
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ir.verifier import operand_faults
from circlekit.rewrite.match import Match
from circlekit.rewrite.picture import Node, OperandPattern


class Builder:
    """Creates the operators of ``after`` for one match of ``before``.

    ``match``: what the names in ``before`` stand for in ``graph``.  ``computed``: what the method
    ``constants`` of the rewrite returned.  ``base_name``: the first part of the names of new constants.
    ``values``: the new values by their names in ``after``.  ``ops``: the operators created so far.
    If the rewrite then refuses the operators, it must call ``discard``.
    """

    def __init__(self, graph: Graph, match: Match, computed: Mapping[str, Any], base_name: str) -> None:
        self.graph = graph
        self.match = match
        self.computed = computed
        self.base_name = base_name
        self.values: dict[str, Value] = {}
        self.ops: list[Op] = []

    def op(self, node: Node) -> Op:
        """Create the operator of ``node``, an operator of ``after``, without adding it to the graph.

        Raise ModelError if the operator is not valid, RewriteError if an operand or attribute has an
        unknown name.
        """
        kind, declared = node.kinds[0], None
        if node.like is not None and type(like := self.match.ops[node.like]) in node.kinds:
            kind = type(like)
            # Some operators, such as QUANTIZE, do not infer the dtype of their result but keep the given one.
            # So the results first get the types of the matched results, then the types that are inferred.
            declared = list(map(Value.of_type, like.results))
        operands = [self._operand(kind, i, pattern) for i, pattern in enumerate(node.operands)]
        while operands and operands[-1] is None:
            operands.pop()
        op = kind(*operands, results=declared, **self._attributes(node, kind))
        self.ops.append(op)
        for value, inferred in zip(op.results, op.inferred() if declared else (), strict=False):
            value.dtype, value.shape = inferred.dtype, inferred.shape
        if (fault := next(operand_faults(op), None)) is not None:
            raise ModelError(fault)
        self.values.update(zip(node.results, op.results, strict=False))
        return op

    def _operand(self, kind: type[Op], index: int, pattern: OperandPattern) -> Value | None:
        """Return the value for operand ``index`` of a new operator of class ``kind``; None if absent."""
        spec = kind.operand_spec(index)
        assert spec is not None  # a picture makes only declared operators
        if pattern.name is None:
            array = np.asarray(pattern.literal)
            takes_floats = not spec.dtypes or DType.FLOAT32 in spec.dtypes
            dtype = np.dtype(np.float32) if takes_floats else spec.dtypes[0].numpy
            return self._constant(spec.name, array.astype(dtype))
        if pattern.name in self.values:
            return self.values[pattern.name]
        if pattern.name in self.computed:
            operand = self.computed[pattern.name]
            if operand is None or isinstance(operand, Value):
                return operand
            self.values[pattern.name] = self._constant(spec.name, np.asarray(operand, order="C"))
            return self.values[pattern.name]
        if pattern.name not in self.match.values:
            raise RewriteError(f"`after` reads {pattern.name}, which neither `before` nor `constants` gives")
        return self.match.values[pattern.name]

    def _constant(self, operand: str, array: Array) -> Value:
        """Return a new constant, named after ``operand``; a large array is moved to a temporary file."""
        return Value.constant(self.graph.unique_name(f"{self.base_name}/{operand}"), moved_to_file(array))

    def _attributes(self, node: Node, kind: type[Op]) -> dict[str, Any]:
        """Return the attributes that ``node`` gives or copies; all others get their defaults.

        ``like`` copies the attributes of a matched operator.  Attributes that the picture gives replace them.
        """
        values: dict[str, Any] = {}
        if node.like is not None:
            names = {a.name for a in kind.attributes}
            values = {n: v for n, v in self.match.ops[node.like].attribute_items().items() if n in names}
        for name, pattern in node.attributes.items():
            assert pattern.choices is not None  # ``after`` gives exactly one
            value = pattern.choices[0]
            if isinstance(value, Symbol):  # a name to which ``constants`` or ``before`` gave a value
                value = self._named_attribute(value)
            values[name] = value
        return values

    def _named_attribute(self, name: Symbol) -> Any:
        """Return the value of the attribute ``name``; raise RewriteError if nothing gives it."""
        for given in (self.computed, self.match.attributes):
            if name in given:
                return given[name]
        raise RewriteError(f"`after` has the attribute {name}, which neither `before` nor `constants` gives")

    def discard(self) -> None:
        """Undo ``op``: the new operators are no longer users of their operands."""
        for op in self.ops:
            op.drop_inputs()


def type_refusal(old: Value, new: Value) -> str | None:
    """Return a refusal if ``new`` has another dtype or shape than ``old``; None if they agree.

    A dimension that is unknown in one of the shapes agrees with every size.  An unknown rank agrees only with
    an unknown rank.
    """
    if old.dtype is not new.dtype:
        return f"%{old.name}: is {old.dtype.short}, the rewrite gives {new.dtype.short}"
    pairs = zip(old.shape or (), new.shape or (), strict=False)
    if old.rank != new.rank or any(a != b for a, b in pairs if None not in (a, b)):
        given = format_shape(new.shape)
        return f"%{old.name}: has shape {format_shape(old.shape)}, the rewrite gives {given}"
    return None


def rank_refusal(before: Sequence[Op], after: Sequence[Op], old: Value, new: Value) -> str | None:
    """Return a refusal if ``new`` may get another rank in a run than ``old``; None if the ranks agree.

    ``before``, ``after``: the operators that compute ``old`` and ``new``, in a valid order.

    A constant of higher rank than the other operand raises the rank of the result.  So the ranks from 0 to
    the highest rank of a constant are tried.  In each trial, all operands of unknown rank get this rank, and
    the ranks of ``old`` and ``new`` are inferred and compared.  At the end all shapes are as before the call.
    """
    results = [value for op in (*before, *after) for value in op.results]
    operands = {value for op in (*before, *after) for value in op.inputs if value is not None}
    unknown = [value for value in operands.difference(results) if value.shape is None]
    if not unknown:
        return None
    stated = [(value, value.shape) for value in (*unknown, *results)]
    try:
        for rank in range(1 + max((v.known_rank for v in operands if v.is_const), default=0)):
            for value in unknown:
                value.shape = (None,) * rank
            with suppress(ModelError):  # the operators do not take operands of this rank
                for op in (*before, *after):
                    _infer_ranks(op, rank)
                if old.rank != new.rank:
                    found = f"has shape {format_shape(old.shape)} if operands have rank {rank}"
                    return f"%{old.name}: {found}, the rewrite gives {format_shape(new.shape)}"
    finally:
        for value, shape in stated:
            value.shape = shape
    return None


def _infer_ranks(op: Op, rank: int) -> None:
    """Set the inferred shapes of the results; without a shape rule, give unknown ranks the rank ``rank``."""
    try:
        shapes = [type.shape for type in op.inferred()]
    except UnsupportedError:
        shapes = [(None,) * rank if value.shape is None else value.shape for value in op.results]
    for value, shape in zip(op.results, shapes, strict=False):
        value.shape = shape


def range_refusal(computed: Mapping[str, Any], underflow: bool, match: Match) -> str | None:
    """Return the refusal that names an unusable constant in ``computed``; None if all can be used.

    A constant is unusable in two cases:

    - An element is not finite, for example the product of two large constants of the model.
    - All elements are smaller in magnitude than the normal numbers of the dtype, for example the products of
      small constants.  But an array of zeros is usable if a constant of the match has only zeros, too.

    ``underflow``: whether numpy reported an underflow while the constants were computed; if False, the test
    for small elements is skipped.
    """
    numbers = {n: np.asarray(a) for n, a in computed.items() if isinstance(a, np.ndarray | np.generic)}
    arrays = {n: a for n, a in numbers.items() if a.dtype.kind == "f"}
    result = f"%{next(iter(match.ops.values())).output.name}"
    infinite = next((n for n, a in arrays.items() if not np.isfinite(_largest(a))), None)
    if infinite is not None:
        return f"{result}: {infinite} would not be finite"
    constants = [v.data for v in match.values.values() if v is not None and v.data is not None]
    for name, array in arrays.items() if underflow else ():
        is_tiny = array.size and _largest(array) < np.finfo(array.dtype).tiny
        if is_tiny and (array.any() or all(data.any() for data in constants)):
            return f"{result}: {name} would be too small for its dtype"
    return None


def quantized_refusal(match: Match) -> str | None:
    """Return the refusal that names the first quantized value of the match; None if there is none."""
    for value in match.values.values():
        if value is not None and value.quantization is not None and value.quantization.scale.size:
            return f"%{value.name}: is quantized, this pass does not keep quantization parameters"
    return None


def misfit_refusal(op: Op) -> str | None:
    """Return why ``op`` cannot take its operands, for example after constant folding; None if it can."""
    sentence = misfit(op)
    return None if sentence is None else f"%{op.output.name}: {sentence}"


def variable_refusal(match: Match) -> str | None:
    """Return the refusal that names a variable of the match; None if there is none.

    The new operators may read the variable later than the matched ones did, and an operator in between may
    change it.
    """
    for value in match.values.values():
        if value is not None and value.is_variable:
            return f"%{value.name}: is a variable, which may change before the rewrite would read it"
    return None


def _largest(array: Array) -> float:
    """Return the largest magnitude in ``array`` without a temporary array; 0 if empty, NaN if one is NaN."""
    return max(-float(array.min()), float(array.max())) if array.size else 0.0
