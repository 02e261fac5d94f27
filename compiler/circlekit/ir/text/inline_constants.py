# SPDX-License-Identifier: Apache-2.0
"""Constants written in the place of an operand: ``Mul(%x, [2.0, 1.5])``.

The shape is that of the nesting.  The dtype is the first of these that can hold the numbers (a number with a
point or an exponent fits float types only):

1.  the dtype of the first other operand that is declared with the same dtypes, unless the operator passes
    its operands on to graphs, where they may have any dtypes;
2.  the declared dtypes of the operand, in their order;
3.  if it declares none: f32 for a list with a float, else i32, or bool for true and false.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.ir.core import Op, Value
from circlekit.ir.declaration import Operand
from circlekit.ir.dtypes import DType
from circlekit.ir.tensor import Array
from circlekit.ir.text.literal_parsing import Fail, array_of, literal_dtype
from circlekit.ir.text.syntax import Literal

_KINDS = {DType.FLOAT32: "f", DType.INT32: "iuf", DType.BOOL: "b"}
"""The kinds of numpy dtypes that hold literals which are f32, i32 or bool by themselves."""


def inline_array(literal: Literal, allowed: Sequence[DType], alike: DType | None, fail: Fail) -> Array:
    """Return the array of a literal.  ``allowed``: the declared dtypes; ``alike``: see ``dtype_alike``."""
    own = literal_dtype(literal, fail)
    first = [] if alike is None else [alike]
    candidates = [*first, *allowed] if allowed else [alike or own, own]
    dtype = next((d for d in candidates if _holds(d, own)), candidates[0])
    return array_of(literal, dtype, None, fail)


def dtype_alike(
    cls: type[Op], spec: Operand, values: Sequence[Value | None], specs: Sequence[Operand]
) -> DType | None:
    """Return the dtype of the first operand that is not a literal and declares the dtypes of ``spec``.

    ``values``: the operands, None for literals; ``specs``: their declarations.
    """
    if any(attribute.is_graph for attribute in cls.attributes):
        return None
    pairs = zip(values, specs, strict=True)
    return next((v.dtype for v, other in pairs if v is not None and other.dtypes == spec.dtypes), None)


def _holds(dtype: DType, own: DType) -> bool:
    return dtype.numpy is not None and np.dtype(dtype.numpy).kind in _KINDS[own]
