# SPDX-License-Identifier: Apache-2.0
"""Every operator of the schema has a kernel or is listed as unsupported with a reason."""

from __future__ import annotations

import pytest

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.errors import UnsupportedError
from circlekit.interp.interpreter import Interpreter
from circlekit.io.tables import ENUMS
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.ir.value import Value
from circlekit.ops.program.custom import CUSTOM_KERNELS, UNSUPPORTED, why_unsupported

CODES = [row[0] for row in ENUMS["BuiltinOperator"][1]]


def has_kernel(code: str) -> bool:
    kind = REGISTRY.get(code)
    forms = ("kernel", "call")
    return kind is not None and any(getattr(kind, form) is not getattr(Op, form) for form in forms)


def test_every_operator_of_the_schema_has_a_kernel_or_a_reason() -> None:
    missing = {code for code in CODES if not has_kernel(code)} - {"CUSTOM"}
    assert [code for code in missing if why_unsupported(code) is None] == []
    assert set(REGISTRY) - set(CODES) <= {c for c in REGISTRY if c.startswith("TEST_")}


@pytest.mark.parametrize("code", ["STABLEHLO_CBRT", *sorted(set(UNSUPPORTED) - {"STABLEHLO"})])
def test_a_refusal_names_operator_and_place(code: str) -> None:
    graph = Graph("main", ())
    result = Value("y", f32, (1,))
    graph.append(OpaqueOp(code=code, results=[result]))
    graph.outputs = [result]
    with pytest.raises(UnsupportedError, match=f"operator {code} has no kernel: ") as caught:
        Interpreter(Model([graph])).run([])
    assert f"at main > op 0 {code}" in str(caught.value)


def test_custom_operators_of_training_are_known_with_and_without_flex_prefix() -> None:
    assert {"Identity", "FlexIdentity", "StopGradient", "FlexStopGradient"} <= set(CUSTOM_KERNELS)
