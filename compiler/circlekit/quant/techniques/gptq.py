# SPDX-License-Identifier: Apache-2.0
"""GPTQ: round weights column by column, so that later columns correct the errors of earlier ones.

Sources: Frantar et al., "GPTQ: Accurate Post-Training Quantization", ICLR 2023, algorithm 1 with the Cholesky
factor; for ``refine``, coordinate descent on the same error, Behdin et al., "QuantEase", 2023.

The functions have these arguments.  All arrays are float64.  ``hessian`` must be finite; callers check that.
A layer is g independent matrix products (groups), as in a grouped convolution; o is the number of outputs of
a group, d the number of weights of an output.  An input row is d numbers that are multiplied by the weights
of an output.

``target`` [g,o,d]: the weights to approximate.
``hessian`` [g,d,d]: for each group, the sum, over all input rows, of the outer product of a row with itself.
``steps`` [g,o,d]: the scale of each weight.
``limits``: the smallest and the largest integer.

The error of one output with the integers q [d] is e @ hessian @ e^T, where the row e is target - steps * q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlekit.ir.value import Array

BLOCK_COLUMNS = 64
"""The number of columns (weights with the same index in d) in a block.

Within a block, the error of each column is passed on at once; to the columns behind the block, the errors of
the whole block are passed on by one matrix product.
"""


@dataclass
class Factored:
    """A factored Hessian.

    ``order`` [g,d]: the order in which columns are rounded: by falling diagonal element of the Hessian.
    Columns whose errors count most come first, so that many later columns can correct these errors.
    ``factor`` [g,d,d]: the upper Cholesky factor of the inverse of the damped Hessian, with rows and columns
    in that order.
    """

    order: Array
    factor: Array


def factored(hessian: Array, damping: float = 0.01) -> Factored:
    """Damp ``hessian`` (see ``damped``), then factor it."""
    diagonal = np.diagonal(hessian, axis1=1, axis2=2)
    order = np.argsort(-diagonal, axis=1, kind="stable")
    rows = np.take_along_axis(hessian, order[:, :, None], 1)
    return Factored(order, inverse_factor(np.take_along_axis(rows, order[:, None], 2), damping))


def gptq(target: Array, hessian: Factored, steps: Array, limits: tuple[int, int]) -> Array:
    """Return the integers [g,o,d], as float64, that GPTQ chooses for ``target``.

    ``hessian``: the result of ``factored``.
    """
    order, factor = hessian.order, hessian.factor
    work = np.take_along_axis(target.astype(np.float64), order[:, None], 2)
    scale = np.take_along_axis(steps, order[:, None], 2)
    out = np.empty_like(work)
    depth = work.shape[2]
    for start in range(0, depth, BLOCK_COLUMNS):
        end = min(start + BLOCK_COLUMNS, depth)
        errors = np.empty((*work.shape[:2], end - start))
        for j in range(start, end):
            out[..., j] = np.clip(np.rint(work[..., j] / scale[..., j]), *limits)
            error = (work[..., j] - out[..., j] * scale[..., j]) / factor[:, j, j, None]
            errors[..., j - start] = error
            work[..., j + 1 : end] -= error[..., None] * factor[:, None, j, j + 1 : end]
        work[..., end:] -= errors @ factor[:, start:end, end:]
    result = np.empty_like(out)
    np.put_along_axis(result, np.broadcast_to(order[:, None], out.shape), out, 2)
    return result


def damped(hessian: Array, damping: float) -> Array:
    """Return, for each group, hessian + damping * mean(its diagonal) * identity."""
    # + 1e-30: the matrix of a group whose rows are all 0 can be inverted, too
    mean = np.diagonal(hessian, axis1=1, axis2=2).mean(axis=1)
    return np.asarray(hessian + (damping * mean + 1e-30)[:, None, None] * np.eye(hessian.shape[-1]))


def inverse_factor(hessian: Array, damping: float) -> Array:
    """Return the upper triangular U with U^T U = inverse of the damped ``hessian``.

    The damping is increased until U exists.
    """
    try:
        inverse = np.linalg.inv(damped(hessian, damping))
        lower = np.linalg.cholesky((inverse + inverse.swapaxes(1, 2)) / 2)
    except np.linalg.LinAlgError:  # rounding made the matrix not positive definite
        return inverse_factor(hessian, max(damping * 10, 1e-8))
    return np.asarray(lower.swapaxes(1, 2))


def refine(
    integers: Array, target: Array, hessian: Array, steps: Array, limits: tuple[int, int], passes: int = 2
) -> Array:
    """Return better integers than ``integers`` [g,o,d], found by coordinate descent.

    Each pass goes through the columns and sets each column to the integers that are best while the other
    columns stay.  There are at most ``passes`` passes.  A column is changed only if its diagonal element of
    ``hessian`` is positive in every group.
    """
    out = np.array(integers)
    diagonal = np.diagonal(hessian, axis1=1, axis2=2)
    gradient = (target - out * steps) @ hessian  # half of the error's gradient, negated
    for _ in range(passes):
        changed = False
        for j in np.flatnonzero((diagonal > 0).all(axis=0)):
            best = out[..., j] + gradient[..., j] / (diagonal[:, j, None] * steps[..., j])
            best = np.clip(np.rint(best), *limits)
            change = (best - out[..., j]) * steps[..., j]
            groups, outputs = np.nonzero(change)
            if groups.size:
                gradient[groups, outputs] -= change[groups, outputs, None] * hessian[groups, j]
                out[..., j] = best
                changed = True
        if not changed:
            break
    return out


def squared_errors(integers: Array, target: Array, hessian: Array, steps: Array) -> Array:
    """Return the error [g,o] of each output: e @ hessian @ e^T, see the module."""
    wrong = target - integers * steps
    return np.asarray(((wrong @ hessian) * wrong).sum(axis=2))


def best_scales(integers: Array, target: Array, hessian: Array, steps: Array) -> Array:
    """Return the factors [g,o] by which to multiply ``steps``, so that ``integers`` have the least error.

    The factor of an output whose best factor is not positive is 1.
    """
    weights = integers * steps
    product = weights @ hessian
    power, match = (product * weights).sum(axis=2), (product * target).sum(axis=2)
    is_usable = (power > 0) & (match > 0)
    return np.where(is_usable, match / np.where(is_usable, power, 1), 1.0)
