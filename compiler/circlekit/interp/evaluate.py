# SPDX-License-Identifier: Apache-2.0
"""One operator on given arrays, with its results checked against what its values declare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np

import circlekit.ops  # noqa: F401  # the operators must be declared, whoever made the graph
from circlekit.errors import CirclekitError, LimitError, ModelError, ShapeError, UnsupportedError
from circlekit.interp.room import Room
from circlekit.ir.op import Op, OpaqueOp, Run
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.program.custom import CUSTOM
from circlekit.ops.program.unsupported import UNSUPPORTED

CustomKernel = Callable[..., Any]
"""Called with the operator and its operands (None where absent): its result, or a sequence of them."""

_CUSTOM: dict[str, CustomKernel] = dict(CUSTOM)


def register_custom(name: str, kernel: CustomKernel) -> None:
    """Give the custom operator ``name`` a kernel, in the place of one that it may have had.

    ``kernel(op, *operands)``: arrays that it must not change, None for an operand that is absent; it returns
    the result, or a sequence of them, in the dtypes and shapes that the model declares.
    """
    _CUSTOM[name] = kernel


def evaluate(op: Op, operands: Sequence[Array | None], run: Run | None = None) -> list[Array]:
    """Results of ``op`` for ``operands``, None where absent.

    ``run`` runs the graphs that the operator calls.  UnsupportedError where there is no kernel for this
    operator, dtype or form; ShapeError where a result is not what the operator's values declare; LimitError
    where the results would take more memory than may be used.
    """
    missing = len(op.operands) - len(operands) if not any(o.variadic for o in op.operands) else 0
    Room(op).check(operands)
    with np.errstate(all="ignore"):  # infinities and NaN are values like others, as in the runtimes
        return compute(op, [*operands, *([None] * missing)], run)


def compute(op: Op, arguments: Sequence[Array | None], run: Run | None) -> list[Array]:
    """``evaluate`` for an interpreter, which ignores numpy's warnings; one argument for each operand."""
    try:
        results = _results(op, arguments, run)
    except CirclekitError:
        raise
    except MemoryError as error:
        raise LimitError(f"{op.code} needs more memory than there is: {error}") from None
    except (ValueError, IndexError, ArithmeticError) as error:
        found = ", ".join("none" if a is None else f"{a.dtype}{list(a.shape)}" for a in arguments)
        raise ModelError(f"{op.code} cannot be computed of {found}: {error}") from error
    if len(results) != len(op.results):
        raise ShapeError(f"{op.code} made {len(results)} results, {len(op.results)} are declared")
    arrays = []
    for value, result in zip(op.results, results, strict=True):
        array = result if type(result) is np.ndarray else np.asarray(result)
        if array.shape != value.shape or array.dtype != value.dtype.numpy:
            check_type(value, array, "made")
        arrays.append(array)
    return arrays


def _results(op: Op, arguments: Sequence[Array | None], run: Run | None) -> Sequence[Any]:
    reason = UNSUPPORTED.get(op.code)
    if reason is not None:
        raise UnsupportedError(f"operator {op.code} has no kernel: {reason}")
    if isinstance(op, OpaqueOp):
        kernel = _CUSTOM.get(op.custom_code or "")
        if kernel is None:
            name = f"custom operator {op.custom_code}" if op.custom_code else f"operator {op.code}"
            raise UnsupportedError(f"{name} has no kernel")
        _check_custom(op, kernel, arguments)
        try:
            out = kernel(op, *arguments)
        except TypeError as error:
            if kernel is not CUSTOM.get(op.custom_code or ""):  # a mistake of who wrote it
                raise
            raise ModelError(f"custom operator {op.custom_code} takes no such operands: {error}") from None
        return out if isinstance(out, list | tuple) else (out,)
    try:
        return op.call(run or _no_graphs, *arguments)
    except TypeError as error:
        if all(v is None or _is_rank_sure(v) for v in op.inputs):  # it is a mistake of ours
            raise
        raise ValueError(str(error)) from None  # len() of a scalar, where nobody knew the rank before


def _is_rank_sure(value: Value) -> bool:
    """Old files write [] for a result of unknown rank, too."""
    return value.shape is not None and (value.shape != () or value.producer is None)


def _check_custom(op: OpaqueOp, kernel: CustomKernel, arguments: Sequence[Array | None]) -> None:
    """ModelError for operands that a kernel cannot be called with: no declaration says what they must be."""
    try:
        signature(kernel).bind(op, *arguments)
    except TypeError as error:
        found = f"custom operator {op.custom_code} has {len(arguments)} operands"
        raise ModelError(f"{found}, its kernel takes others: {error}") from None
    if kernel is CUSTOM.get(op.custom_code or "") and any(a is None for a in arguments):
        raise ModelError(f"custom operator {op.custom_code} lacks an operand")


def _no_graphs(graph: object, inputs: Sequence[Array]) -> list[Array]:
    raise UnsupportedError("an operator that runs other graphs cannot be computed alone")


def check_type(value: Value, array: Array, verb: str) -> None:
    """ShapeError unless ``array`` has the dtype, and the known dimensions, of ``value``."""
    if value.dtype.numpy is not None and array.dtype != value.dtype.numpy:
        raise ShapeError(f"%{value.name} was {verb} as {array.dtype}, {value.dtype.numpy} is declared")
    if value.shape is None or not _is_rank_sure(value):
        return
    fits = len(value.shape) == array.ndim and all(
        d is None or d == a for d, a in zip(value.shape, array.shape, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"%{value.name} was {verb} with shape {format_shape(array.shape)}, "
            f"{format_shape(value.shape)} is declared"
        )
