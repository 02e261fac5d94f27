# SPDX-License-Identifier: Apache-2.0
"""Compare the numbers of operands and results of an operator with the declaration of its class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from circlekit.errors import counted
from circlekit.ir.declaration import Declaration


def arity_faults(
    kind: type[Declaration], operands: Sequence[object], results: int
) -> Iterator[tuple[str, str]]:
    """Yield a fault for too many operands, for each required operand that is absent, and for the results.

    The results are at fault if their number is not the declared one.
    A fault is a pair: the field of the schema's Operator, such as ``inputs[2]``, and a sentence.
    ``kind``: the class of the operator.  ``operands``: None for an absent one.  ``results``: their number.
    """
    specs = kind.operands
    if len(operands) > len(specs) and not (specs and specs[-1].variadic):
        declared = _counted("operand", [spec.name for spec in specs])
        yield "inputs", f"expected at most {declared}, got {len(operands)}"
    for index, spec in enumerate(specs):
        if spec.variadic:
            for later in range(index, len(operands)):
                if operands[later] is None:
                    yield f"inputs[{later}]", f"element {later - index} of the operand {spec.name} is absent"
        elif not spec.optional and (index >= len(operands) or operands[index] is None):
            yield f"inputs[{index}]", f"the operand {spec.name} is missing"
    if results != len(kind.result_names) and not kind.variadic_results:
        yield "outputs", f"expected {_counted('result', kind.result_names)}, got {results}"


def _counted(noun: str, names: Sequence[str]) -> str:
    """Return the number and the names of the declared operands or results: "2 operands (lhs, rhs)"."""
    return counted(len(names), noun) + (f" ({', '.join(names)})" if names else "")
