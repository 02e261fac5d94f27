# SPDX-License-Identifier: Apache-2.0
"""Compute one operator on given arrays; check inputs and results against the types in the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.errors import (
    CirclekitError,
    LimitError,
    ModelError,
    ShapeError,
    UnsupportedError,
    check_name,
    counted,
    shown,
)
from circlekit.interp.execution_plan import ResultMemory, absent_operands, with_operands
from circlekit.interp.fast import FastKernel
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp, Run
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.program.custom import CUSTOM_KERNELS, why_unsupported
from circlekit.ops.program.state import read_only

CustomKernel = Callable[..., Any]
"""The kernel of a custom operator: a function as ``register_custom`` describes it."""

_custom_kernels: dict[str, CustomKernel] = dict(CUSTOM_KERNELS)


def register_custom(name: str, kernel: CustomKernel) -> None:
    """Register ``kernel`` for the custom operator ``name``; it replaces an earlier kernel of that name.

    ``kernel(op, *operands)`` gets read-only arrays, or None for an absent operand.  It returns the result, or
    a list or tuple of results, with the dtypes and shapes that the model declares.  Raise ModelError if
    ``name`` is empty or not a string, or ``kernel`` is not callable.
    """
    check_name("a custom operator", name)
    if not name:  # every opaque operator without a custom code would get this kernel
        raise ModelError("expected the name of a custom operator, got ''")
    if not callable(kernel):
        raise ModelError(f"custom operator {name}: expected a function as kernel, got {kernel!r}")
    _custom_kernels[name] = kernel


def unregister_custom(name: str) -> None:
    """Restore the built-in kernel of the custom operator ``name``, or leave it without a kernel."""
    _custom_kernels.pop(name, None)
    if name in CUSTOM_KERNELS:
        _custom_kernels[name] = CUSTOM_KERNELS[name]


def evaluate(op: Op, operands: Sequence[Array | None], run: Run | None = None) -> list[Array]:
    """Return the results of ``op`` for ``operands``: an array for each operand, None for an absent one.

    A result may share memory with an operand; it is then read-only.
    ``run``: executes the graphs that ``op`` calls; without it, an operator that calls graphs is unsupported.
    Raise

    - UnsupportedError if ``op`` has no kernel for these operands;
    - ModelError if the shape rule or the kernel of ``op`` rejects the operands;
    - ShapeError if a result does not have the type that the model declares;
    - LimitError if the results would exceed the memory limit, or memory runs out.

    If a registered kernel raises ValueError, IndexError or ArithmeticError, this becomes ModelError, and
    MemoryError becomes LimitError.  Any other exception of such a kernel, for example TypeError, passes
    unchanged.
    """
    ResultMemory(op).check(operands)
    with np.errstate(all="ignore"):  # overflow and NaN are ordinary results, as in other runtimes
        return compute(op, [*operands, *[None] * absent_operands(op)], run)


def compute(
    op: Op, operands: Sequence[Array | None], run: Run | None, fast_kernel: FastKernel | None = None
) -> list[Array]:
    """Return the results of ``op``, computed by ``fast_kernel`` if it is given; check their types.

    ``fast_kernel``: what ``interp.fast.prepare(op)`` has returned.  ``operands`` has an entry for each
    declared operand, None for an absent one.  ``run`` and errors: see ``evaluate``.  The caller must check
    the memory limit and disable numpy's floating-point warnings, as ``evaluate`` does.
    """
    # read-only, because other operators may read the same arrays
    operands = [None if a is None else read_only(a) for a in operands]
    try:
        results = _results(op, operands, run) if fast_kernel is None else (fast_kernel(*operands),)
        # of a bytes object, numpy would make a string of fixed length, which drops zero bytes at its end
        arrays = [np.asarray(r, object if isinstance(r, bytes) else None) for r in results if r is not None]
    except CirclekitError:
        raise
    except MemoryError as error:
        raise LimitError(f"{op.code} needs more memory than is available: {error}") from None
    except KERNEL_ERRORS as error:
        raise kernel_error(op, operands, error) from error
    if len(results) != len(op.results):
        raise ShapeError(f"{op.code}: expected {counted(len(op.results), 'result')}, got {len(results)}")
    for value, result in zip(op.results, results, strict=True):
        if result is None:
            raise ModelError(f"result %{value.name}: expected an array from the kernel, got None")
    is_resized = _is_resized(op, operands)
    for value, array in zip(op.results, arrays, strict=True):
        check_type(value, array, "result", is_resized)
    return arrays


def _is_resized(op: Op, operands: Sequence[Array | None]) -> bool:
    """Return whether the shape of an operand differs from the declared one.

    An unknown dimension always differs; dimensions that depend on an unknown one may differ.  If an operand
    differs, the results may have other shapes than declared, as in LiteRT, which infers all shapes again.
    """
    pairs = zip(op.inputs, operands, strict=False)
    return any(v is not None and a is not None and v.shape != a.shape for v, a in pairs)


KERNEL_ERRORS = (ValueError, IndexError, ArithmeticError)
"""The errors that a kernel raises for operands that do not fit, in addition to CirclekitError."""


def kernel_error(op: Op, operands: Sequence[Array | None], error: Exception) -> ModelError:
    """Return the ModelError that replaces ``error``, which a kernel of ``op`` raised on ``operands``.

    If the shape rule rejects the operands, return the error that the rule raises.  Else return a ModelError
    with the text of ``error``.
    """
    try:
        with_operands(op, operands, constant=True).inferred()
    except ModelError as refusal:
        return refusal
    except (CirclekitError, *KERNEL_ERRORS):  # no shape rule, or it fails as the kernel did
        pass
    types = ", ".join("none" if a is None else f"{a.dtype}{list(a.shape)}" for a in operands)
    return ModelError(f"{op.code} failed on operands {types}: {error}")


def check_type(value: Value, array: Array, role: str, is_resized: bool = False) -> None:
    """Raise ShapeError unless ``array`` has the dtype and the shape that the model declares for ``value``.

    Not checked are dtypes that numpy lacks, unknown ranks and dimensions, and the shape of a result that is
    declared as [] (see ``_is_rank_known``).  ``role``: "input" or "result", for the message.
    ``is_resized``: check only the dtype.
    """
    if value.dtype.numpy is not None and array.dtype != value.dtype.numpy:
        raise ShapeError(f"{role} %{value.name}: expected dtype {value.dtype.numpy}, got {array.dtype}")
    shape = value.shape
    if shape is None or is_resized or not _is_rank_known(value):
        return
    pairs = zip(shape, array.shape, strict=False)
    if len(shape) != array.ndim or any(declared not in (None, size) for declared, size in pairs):
        actual = format_shape(array.shape)
        raise ShapeError(f"{role} %{value.name}: expected shape {format_shape(shape)}, got {actual}")


def _results(op: Op, operands: Sequence[Array | None], run: Run | None) -> Sequence[Any]:
    """Return the unchecked results of the plain kernel of ``op``, or of its custom kernel if it is opaque."""
    if isinstance(op, OpaqueOp):
        return _custom_results(op, operands)
    try:
        return op.call(run or _reject_graph, *operands)
    except TypeError as error:  # operands of a dtype or rank that the kernel does not support
        raise ValueError(str(error)) from error


def _is_rank_known(value: Value) -> bool:
    """Return whether the rank of ``value`` is known.

    A file has the shape [] both for a scalar and for a result of unknown rank.  So a result that is declared
    with the shape [] may have any rank.  Inputs and constants with this shape are scalars.
    """
    return value.shape is not None and (value.shape != () or value.producer is None)


def _custom_results(op: OpaqueOp, operands: Sequence[Array | None]) -> Sequence[Any]:
    """Return the results of the registered kernel of ``op``.

    Raise UnsupportedError if ``op`` has no kernel, ModelError if the kernel does not accept the operands.  An
    OpaqueOp may also stand for a known operator whose operands or attributes in the file do not fit its
    declaration; then ``op.extra["misfit"]`` says why.
    """
    name = f"custom operator {op.custom_code}" if op.custom_code else f"operator {op.code}"
    kernel = _custom_kernels.get(op.custom_code or "")
    reason = why_unsupported(op.code)
    if "misfit" in op.extra:
        reason = f"it does not fit its declaration, {op.extra['misfit']}"
    if reason is not None:
        raise UnsupportedError(f"{name} has no kernel: {reason}")
    if kernel is None:
        unknown = "this version of circlekit does not know it"
        advice = "circlekit.register_custom adds one" if op.custom_code else unknown
        raise UnsupportedError(f"{name} has no kernel; {advice}")
    try:
        signature(kernel).bind(op, *operands)
    except TypeError as error:
        given = counted(len(operands), "operand")
        raise ModelError(f"{name}: its kernel does not take {given}: {error}") from None
    is_builtin = kernel is CUSTOM_KERNELS.get(op.custom_code or "")
    if is_builtin and any(a is None for a in operands):
        raise ModelError(f"{name}: expected all operands to be present")
    try:
        results = kernel(op, *operands)
    except TypeError as error:
        if not is_builtin:  # an error in the user's code
            raise
        raise ModelError(f"{name} does not support operands of these types: {error}") from None
    return results if isinstance(results, list | tuple) else (results,)


def _reject_graph(graph: object, inputs: Sequence[Array]) -> list[Array]:
    """Refuse to run a graph: the ``Run`` of an operator that is computed without an interpreter."""
    raise UnsupportedError("an operator that runs other graphs cannot be computed outside an interpreter")


Inputs = Sequence[Array] | Mapping[str, Array]
"""Arrays in the order of a graph's inputs, or by input name."""


def model_inputs(model: Model, graph: int, inputs: Inputs) -> list[Array]:
    """Return ``inputs`` as arrays in the order of the inputs of graph number ``graph``.

    Raise ModelError if there is no such graph, or if ``inputs`` has a wrong type.  Raise ShapeError
    if number, names, dtypes or shapes of ``inputs`` differ from those that the graph declares.  If the model
    comes from a file, the ShapeError names the file.
    """
    if not isinstance(graph, int | np.integer) or not 0 <= graph < len(model.graphs):
        numbers = f"expected a graph number from 0 to {len(model.graphs) - 1}, got {graph!r}"
        raise ModelError(numbers if model.graphs else "the model has no graph")
    check_kind(inputs)
    chosen = model.graphs[graph]
    try:
        if not isinstance(inputs, Mapping):
            return check_inputs(chosen, inputs)
        faults = [f"missing {_declared(v)}" for v in chosen.inputs if v.name not in inputs]
        names = {v.name for v in chosen.inputs}
        faults += [f"unknown %{name}" for name in inputs if name not in names]
        if faults:
            raise ShapeError(
                f"graph {shown(chosen.name)}: expected inputs {_listed(chosen)}: {', '.join(faults)}"
            )
        return check_inputs(chosen, [inputs[v.name] for v in chosen.inputs])
    except CirclekitError as error:
        if model.source is not None:
            error.note(f"in {model.source}")
        raise


def check_kind(inputs: object) -> None:
    """Raise ModelError if ``inputs`` is neither a mapping nor another collection of arrays."""
    is_scalar = isinstance(inputs, np.ndarray) and inputs.ndim == 0
    if is_scalar or isinstance(inputs, str) or not isinstance(inputs, Iterable):
        kind = type(inputs).__name__
        raise ModelError(f"inputs: expected a list of arrays, or a dict by input name, got {kind}")


def check_inputs(graph: Graph, inputs: Sequence[Array], is_called: bool = False) -> list[Array]:
    """Return ``inputs`` as arrays.

    ``is_called``: whether an operator calls ``graph``; then an input declared as [] may have any rank.
    Raise ShapeError if number, dtypes or shapes of ``inputs`` are not those that ``graph`` declares.
    """
    given = list(inputs)
    if len(given) != len(graph.inputs):
        expected = f"{counted(len(graph.inputs), 'input')} ({_listed(graph)})"
        raise ShapeError(f"graph {shown(graph.name)}: expected {expected}, got {len(given)}")
    arrays = []
    for value, item in zip(graph.inputs, given, strict=True):
        try:
            array = np.asarray(item)
        except ValueError:
            expected = f"input %{value.name}: expected an array"
            raise ShapeError(f"{expected}, got lists of unequal lengths") from None
        check_type(value, array, "input", is_called and value.shape == ())
        arrays.append(array)
    return arrays


def _listed(graph: Graph) -> str:
    return ", ".join(_declared(v) for v in graph.inputs) or "none"


def _declared(value: Value) -> str:
    return f"%{value.name}: {value.dtype.short}{format_shape(value.shape)}"
