# SPDX-License-Identifier: Apache-2.0
"""Make random operators from their declarations.

Operands are chosen by name and dtype, attributes by name and default.  If the shape rule or the kernel of an
operator raises an error, the operator is made again with other operands and attributes.

An operand is either data or a parameter: axes, sizes, indices or weights (``is_parameter``).
The argument ``m`` is the builder of the model.  It draws random numbers, has a pool of values that may become
operands, and knows example data for each value.  ``kind`` is the class of an operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from circlekit.errors import CirclekitError
from circlekit.ir.declaration import Operand
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Quantization, Value
from circlekit.testing.model_builder import ModelBuilder, Rejected
from circlekit.testing.random_attributes import derived_attributes, random_attribute, random_quantization
from circlekit.testing.random_constants import PARAMETERS, is_parameter, proposal

ATTEMPTS = 30
"""The largest number of attempts to make one operator whose operands and attributes fit."""

QUANTIZED_DTYPES = (DType.INT8, DType.UINT8, DType.INT16)
"""The dtypes of random quantized values."""


def random_operator(m: ModelBuilder, kind: type[Op] | None = None) -> Value:
    """Append an operator of class ``kind`` (None: of a random class); return its first result.

    Raise Rejected if none of ATTEMPTS operators is valid.
    """
    if kind is None:
        names = sorted(code for code, cls in REGISTRY.items() if cls.operands and cls.pure)
        kind = REGISTRY[names[m.below(len(names))]]
    for _ in range(ATTEMPTS):
        with suppress(Rejected, CirclekitError, ValueError, IndexError, TypeError, ArithmeticError):
            return m.add(make_operator(m, kind))
    raise Rejected


def make_operator(m: ModelBuilder, kind: type[Op]) -> Op:
    """Return an operator with random operands and attributes; their combination may be invalid.

    Raise Rejected if no value of the pool has the dtype of an operand, and the errors of the constructor of
    ``kind``.
    """
    data: Value | None = None  # the first operand that is data; the others are chosen to fit it
    chosen: dict[str, Value | None] = {}
    order = sorted(kind.operands, key=lambda spec: (is_parameter(spec), spec.name == "output_shape"))
    for spec in order:
        if spec.optional and m.chance(0.5):
            chosen[spec.name] = None
            continue
        if data is None and not is_parameter(spec):
            data = m.pick_any(lambda v, spec=spec: not spec.dtypes or v.dtype in spec.dtypes)  # type: ignore[misc]
            chosen[spec.name] = data
            continue
        chosen[spec.name] = _operand(m, kind, spec, data, chosen)
    operands = [chosen[spec.name] for spec in kind.operands]
    if kind.operands[-1].variadic:
        operands += [operands[-1]] * m.below(3)  # the same value up to two more times
    second = kind.operand_spec(1)
    if len(operands) > 1 and second is not None and not is_parameter(second) and m.chance(0.4):
        operands[:2] = [operands[1], operands[0]]  # the first operand may then be a constant
    while operands and operands[-1] is None:
        operands.pop()
    attributes = derived_attributes(m, kind, operands)
    for item in kind.attributes:
        if item.name not in attributes and not item.is_graph:  # graphs to call are not made here
            attributes[item.name] = random_attribute(m, item) if m.chance(0.5) else item.default
    if data is not None and kind.code == "QUANTIZE":
        dtype = QUANTIZED_DTYPES[m.below(3)] if data.quantization is None or m.chance(0.3) else data.dtype
        attributes["results"] = [Value("", dtype, data.shape, None, _result_quantization(m, data, dtype))]
    elif data is not None and data.quantization is not None and kind.code != "DEQUANTIZE":
        # most inferred types have no quantization, so the results are declared
        inferred = kind(*operands, **attributes).inferred()
        attributes["results"] = [
            Value("", t.dtype, t.shape, None, _result_quantization(m, data, t.dtype)) for t in inferred
        ]
    return kind(*operands, **attributes)


def _operand(
    m: ModelBuilder, kind: type[Op], spec: Operand, data: Value | None, chosen: Mapping[str, Value | None]
) -> Value:
    """Return an operand that fits ``data``: a value of the builder's pool, or a constant.

    ``data``, ``chosen``: see ``proposal``.  Raise Rejected if no value of the pool fits.
    """
    dtype = f32 if not spec.dtypes or f32 in spec.dtypes else spec.dtypes[0]
    if spec.name in PARAMETERS and i32 in spec.dtypes:
        dtype = i32
    elif data is not None and (not spec.dtypes or data.dtype in spec.dtypes):
        dtype = data.dtype
    if not is_parameter(spec) and m.chance(0.5):
        shape = m.shape(data) if data is not None else ()
        return m.pick_any(lambda v: v.dtype is dtype and (m.shape(v) == shape or m.chance(0.1)))
    value = m.constant(proposal(m, kind, spec.name, data, chosen, dtype), spec.name, dtype.numpy)
    if data is not None and data.quantization is not None and dtype is data.dtype:
        value.quantization = data.quantization if m.chance(0.5) else random_quantization(m, dtype)
    return value


def _result_quantization(m: ModelBuilder, data: Value, dtype: DType) -> Quantization | None:
    """Return a quantization for a result of ``dtype``.

    - If ``data`` is quantized with this dtype, return its quantization in most cases.
    - Else return a random quantization for a dtype in QUANTIZED_DTYPES, None for any other dtype.
    """
    if dtype is data.dtype and data.quantization is not None and m.chance(0.8):
        return data.quantization
    return random_quantization(m, dtype) if dtype in QUANTIZED_DTYPES else None
