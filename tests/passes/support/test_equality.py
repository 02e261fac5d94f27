# SPDX-License-Identifier: Apache-2.0
"""Groups of equal constants, and sentences about similar constants and operators."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.ir.array_bytes import SAMPLE_BYTES
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization, Value
from circlekit.passes.support import equality
from circlekit.passes.support.equality import different_constants, different_operators, equal_constants


@pytest.mark.parametrize("size_bytes", [64, 2 * SAMPLE_BYTES, 2 * SAMPLE_BYTES + 512, 4 * SAMPLE_BYTES])
@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_two_constants_that_differ_in_one_element_are_not_equal(size_bytes: int, place: float) -> None:
    first = np.arange(size_bytes // 4, dtype=np.int32)
    second = first.copy()
    second[int(place * (first.size - 1))] += 1
    values = [Value.constant("first", first), Value.constant("second", second)]
    assert equal_constants(values) == [[values[0]], [values[1]]]


def test_large_constants_with_different_ends_are_not_read_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equality, "digest", lambda array: pytest.fail("a constant was read completely"))
    first = np.zeros(4 * SAMPLE_BYTES, np.int8)
    values = [Value.constant("first", first), Value.constant("second", first + np.int8(1))]
    assert len(equal_constants(values)) == 2
    assert len(equal_constants(values[:1])) == 1


def test_packed_constants_with_other_packing_differ() -> None:
    data = np.arange(4, dtype=np.int8)
    values = [Value.constant(name, data) for name in "abc"]
    for value, packing in zip(values, ("x", "y", "x"), strict=True):
        value.shape = (8,)
        value.extra["packing"] = packing
    assert [[v.name for v in group] for group in equal_constants(values)] == [["a", "c"], ["b"]]
    for value in values:
        value.shape = (4,)  # now the constants are not packed: ``extra`` is not compared
    assert len(equal_constants(values)) == 1


FIRST = "%a = Add(%x, %k)"


@pytest.mark.parametrize(
    ("second", "found"),  # in ``found``, CONST is the name of the second operand, TYPE that of the result
    [
        ("%b = Add(%x, [3.0])", [("%b: reads %CONST, but %a reads %k", 1)]),
        ("%b = Add(%x, %x)", [("%b: reads %x, but %a reads %k", 1)]),
        ("%b = Add(%x, %k) {act: RELU}", [("%b: act is RELU, but NONE in %a", 2)]),
        ("%b = Add(%k, %x) {act: RELU}", [("%b: act is RELU, but NONE in %a", 2)]),
        ("%b = Add(%x, %k) : f32[2] quant(scale: 0.5)", [("%b: is TYPE, but %a is f32[2]", 2)]),
        ("%b = Sub(%x, %k)", []),
        ("%b = Add(%z, %z)", []),
    ],
)
def test_different_operators(second: str, found: list[tuple[str, int]]) -> None:
    model = parse_model(
        f"""graph main(%x: f32[2], %z: f32[2]) -> %a, %b {{
              %k = const f32[1] [1.0]
              {FIRST}
              {second}
            }}"""
    )
    b = model.main.ops[1]
    name = "" if b.inputs[1] is None else b.inputs[1].name
    expected = [
        (b, sentence.replace("CONST", name).replace("TYPE", str(b.output.type)), progress)
        for sentence, progress in found
    ]
    assert list(different_operators(model.main)) == expected


def test_equal_copies_of_an_operand_are_no_difference() -> None:
    model = parse_model(
        """graph main(%x: f32[2]) -> %a, %b {
             %a = Add(%x, [1.0])
             %b = Add(%x, [1.0]) {act: RELU}
           }"""
    )
    assert [s for _, s, _ in different_operators(model.main)] == ["%b: act is RELU, but NONE in %a"]


def test_attributes_are_compared_bit_by_bit() -> None:
    model = parse_model(
        """graph main(%x: f32[2]) -> %a, %b {
             %a = LeakyRelu(%x) {alpha: 0.0}
             %b = LeakyRelu(%x) {alpha: -0.0}
           }"""
    )
    assert [s for _, s, _ in different_operators(model.main)] == ["%b: alpha is -0.0, but 0.0 in %a"]


def test_zeros_of_other_signs_are_a_difference() -> None:
    model = parse_model(
        """graph main(%x: f32[2]) -> %a, %b {
             %k = const f32[1] [0.0]
             %l = const f32[1] [-0.0]
             %a = Add(%x, %k)
             %b = Add(%x, %l)
           }"""
    )
    assert [s for _, s, _ in different_operators(model.main)] == ["%b: reads %l, but %a reads %k"]


def test_another_number_of_operands_is_a_difference() -> None:
    model = parse_model(
        """graph main(%x: f32[2]) -> %a, %b {
             %a = AddN(%x, %x)
             %b = AddN(%x, %x, %x)
           }"""
    )
    assert [s for _, s, _ in different_operators(model.main)] == ["%b: reads %x, but %a reads nothing"]


def test_absent_operand_is_a_difference() -> None:
    layer = "FullyConnected(%x, [[1.0, 2.0]], {})"
    # Two operators without bias are equal.  But different_operators assumes that equal operators were merged,
    # so it says that their types differ.
    for bias, beginning in (("none", "%b: is f32"), ("[1.0]", "%b: reads nothing, but %a reads ")):
        model = parse_model(
            f"""graph main(%x: f32[1,2]) -> %a, %b {{
                  %a = {layer.format(bias)}
                  %b = {layer.format("none")}
                }}"""
        )
        ((_, sentence, _),) = different_operators(model.main)
        assert sentence.startswith(beginning)


def test_operators_with_side_effects_are_named() -> None:
    model = parse_model(
        """graph main(%x: f32[2]) -> %a, %b {
             %a = While(%x) {cond: @c, body: @d} : f32[2]
             %b = While(%x) {cond: @c, body: @d} : f32[2]
           }
           graph c(%p: f32[2]) -> %q { %q = Less(1.0, 0.0) : bool[] }
           graph d(%r: f32[2]) -> %s { %s = Neg(%r) }"""
    )
    sentence = "%b: WHILE may have another result each time"
    assert list(different_operators(model.main)) == [(model.main.ops[1], sentence, 1)]


@pytest.mark.parametrize(
    ("array", "scale", "found"),
    [
        (np.array([1, 0], np.int32), None, ("%b: is i32, %a is f32", 1)),
        (np.array([1, 0], np.float32), 0.5, ("%b: has other quantization parameters than %a", 1)),
        (
            np.array([1, -0.0], np.float32),
            None,
            ("%b: equals %a, but has other bits, such as 0.0 and -0.0", 2),
        ),
        (np.array([1, 2], np.float32), None, ("%b: has other elements than %a", 1)),
        (np.array([[1, 0]], np.float32), None, None),
    ],
)
def test_different_constants(array: np.ndarray, scale: float | None, found: tuple[str, int] | None) -> None:
    model = parse_model(
        """graph main(%x: f32[2]) -> %y, %z {
             %a = const f32[2] [1.0, 0.0]
             %b = const f32[2] [1.0, 0.0]
             %y = Add(%x, %a)
             %z = Opaque(%y, %b, none) {code: "CUSTOM", custom_code: "any"} : f32[2]
           }"""
    )
    op = model.main.ops[1]
    quantization = None
    if scale is not None:
        quantization = Quantization.per_tensor(scale)
    b = Value.constant("b", array, quantization)
    op.set_input(1, b)
    expected = [] if found is None else [(b, *found)]
    assert list(different_constants(model.main)) == expected
    b.is_variable = True
    assert list(different_constants(model.main)) == []
