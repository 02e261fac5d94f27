# SPDX-License-Identifier: Apache-2.0
"""Literals: printed with the bits that they had, parsed only if they fit."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pytest

from circlekit.ir.declaration import Attribute
from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.text.constant_data import inline_array
from circlekit.ir.text.lexer import Source, quote, quoted
from circlekit.ir.text.lines import MAX_INLINE_ELEMENTS, Names, payload
from circlekit.ir.text.literal_parsing import array_of, attribute_of, literal_dtype, tree_of
from circlekit.ir.text.literal_printing import (
    elements,
    format_attribute,
    format_key,
    format_nested,
    format_tree,
    plain_items,
    same_attribute,
)
from circlekit.ir.text.syntax import Literal, parse_literal
from circlekit.ir.value import Array, Value


def literal(text: str) -> Literal:
    return parse_literal(Source(text))


def fail(message: str) -> NoReturn:
    raise ValueError(message)


def tree(text: str) -> Any:
    return tree_of(literal(text), fail)


# -- printing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (np.array([0.1, 1e-7, -0.0, np.inf], np.float32), ["0.1", "1e-07", "-0.0", "inf"]),
        (np.array([0.1, 65504], np.float16), ["0.1", "65500.0"]),
        (np.array([0.1, 5e-324], np.float64), ["0.1", "5e-324"]),
        (np.array([[1], [-2]], np.int8), ["1", "-2"]),
        (np.array([True, False]), ["true", "false"]),
        (np.array([np.nan], np.float32), ["nan"]),
        (np.array([-np.nan], np.float32), None),
        (np.array([0x7FC00001], np.uint32).view(np.float32), None),
        (np.array([1j]), None),
    ],
)
def test_elements(array: Array, texts: list[str] | None) -> None:
    assert elements(array) == texts


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((), "1"),
        ((4,), "[1, 2, 3, 4]"),
        ((2, 2), "[[1, 2], [3, 4]]"),
        ((2, 1, 2), "[[[1, 2]], [[3, 4]]]"),
        ((0, 2), "[]"),
        ((2, 0), "[[], []]"),
    ],
)
def test_nested(shape: tuple[int, ...], text: str) -> None:
    count = int(np.prod(shape))
    assert format_nested([str(i + 1) for i in range(count)], shape) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "none"),
        (np.bool_(True), "true"),
        (np.int16(-3), "-3"),
        (np.float32(0.5), "0.5"),
        ("a\n", '"a\\n"'),
        (b"\0", 'base64("AA==")'),
        ({"a": [1, {}], "b c": ()}, '{a: [1, {}], "b c": []}'),
        (Value("x", DType.INT8, ()), "%x"),
        (Graph("g h"), '@"g h"'),
        (np.arange(64, dtype=np.uint8), "array(u8, [" + ", ".join(map(str, range(64))) + "])"),
        (np.zeros((1, 2), np.uint8), 'array(u8, "AAA=", [1, 2])'),
    ],
)
def test_trees(data: object, text: str) -> None:
    assert format_tree(data) == text


def test_long_arrays_are_printed_as_bytes() -> None:
    assert format_tree(np.zeros(65, np.uint8)) == f'array(u8, "{"A" * 87}=")'


@pytest.mark.parametrize(
    ("key", "text"),
    [("a_1", "a_1"), ("", '""'), ("inf", '"inf"'), ("nan", '"nan"'), ("é", '"é"'), ("1a", '"1a"')],
)
def test_keys(key: str, text: str) -> None:
    assert format_key(key) == text
    assert tree("{" + text + ": 1}") == {key: 1}


@pytest.mark.parametrize(
    ("name", "text"),
    [("a/b;c:1", "%a/b;c:1"), ("a b", '%"a b"'), ("", '%""'), ('"', '%"\\""'), ("a:", '%"a:"')],
)
def test_quoted_names(name: str, text: str) -> None:
    assert quoted("%", name) == text


def test_quotes() -> None:
    assert quote("it's \"\\\n") == '"it\'s \\"\\\\\\n"'


@pytest.mark.parametrize("character", ["\r", "\0"])
def test_a_character_that_needs_no_escape_may_stand_beside_an_escape(character: str) -> None:
    token = Source(f'"a{character}1\\n"').take()
    assert (token.kind, token.text) == ("string", f"a{character}1\n")


def test_entries_that_are_not_printed() -> None:
    kept = {"a": 1, "list": [None, b""], "array": np.zeros(1, np.complex64)}
    dropped: dict[str, object] = {
        "stored_name": 1, "buffer": 1, "no_options": True, "far_options": True,
        "object": object(), "inner": [object()], "keys": {1: 2}, "objects": np.array([b""], object),
    }  # fmt: skip
    assert plain_items({**dropped, **kept}) == kept
    assert plain_items({}) == {}


# -- parsing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("[1, 2]", "i32"),
        ("[1, 2.0]", "f32"),
        ("[true]", "bool"),
        ("[true, 1]", "i32"),
        ("[]", "i32"),
        ("2", "i32"),
    ],
)
def test_dtypes_of_literals(text: str, dtype: str) -> None:
    assert literal_dtype(literal(text), fail).short == dtype


@pytest.mark.parametrize(
    ("text", "shape", "found"),
    [
        ("[1, 2, 3, 4]", (2, 2), [[1, 2], [3, 4]]),
        ("[[1, 2], [3, 4]]", None, [[1, 2], [3, 4]]),
        ("7", (), 7),
        ("7", (1, 1), [[7]]),
        ("[7]", (), 7),
        ("[]", (0, 3), []),
    ],
)
def test_arrays(text: str, shape: tuple[int, ...] | None, found: object) -> None:
    array = array_of(literal(text), DType.INT16, shape, fail)
    assert array.dtype == np.int16
    assert array.tolist() == found
    assert shape is None or array.shape == shape


@pytest.mark.parametrize(
    ("text", "dtype", "shape", "message"),
    [
        ("[1, 2, 3]", DType.INT8, (2,), "expected shape [2], got a literal of 3 elements"),
        ("1", DType.INT8, (2,), "expected shape [2], got a literal of 1 element"),
        ("[[1, 2]]", DType.INT8, (2,), "expected shape [2], got a literal of shape [1, 2]"),
        ("[[1], [1, 2]]", DType.INT8, None, "the inner lists differ in length or depth"),
        ("[1, [2]]", DType.INT8, None, "the inner lists differ in length or depth"),
        ("[128]", DType.INT8, None, "128 does not fit i8"),
        ("[-129]", DType.INT8, None, "-129 does not fit i8"),
        ("[-1]", DType.UINT8, None, "-1 does not fit u8"),
        ("[1.0]", DType.INT8, None, "expected an integer for i8, got 1.0"),
        ("[2]", DType.BOOL, None, "expected true or false for a bool"),
        ("[1e39]", DType.FLOAT32, None, "1e+39 does not fit f32"),
        ("[65520]", DType.FLOAT16, None, "65520 does not fit f16"),
        ("[" + "9" * 400 + "]", DType.FLOAT32, None, "a number does not fit a float"),
        ("[1]", DType.INT4, None, 'elements of i4 cannot be written as numbers; use raw("...")'),
        ("[1]", DType.COMPLEX64, None, 'elements of c64 cannot be written as numbers; use base64("...")'),
        ("[a]", DType.INT8, None, "expected a number, got a"),
    ],
)
def test_arrays_that_do_not_fit(text: str, dtype: DType, shape: tuple[int, ...] | None, message: str) -> None:
    with pytest.raises(ValueError) as error:
        array_of(literal(text), dtype, shape, fail)
    assert message in str(error.value)


def test_dimensions_are_limited() -> None:
    assert array_of(literal("[" * 32 + "1" + "]" * 32), DType.INT8, None, fail).shape == (1,) * 32
    with pytest.raises(ValueError, match="the literal has 33 dimensions, expected at most 32"):
        array_of(literal("[" * 33 + "1" + "]" * 33), DType.INT8, None, fail)


@pytest.mark.parametrize(
    ("text", "dtype", "limit"),
    [("[127, -128]", DType.INT8, [127, -128]), ("[65519]", DType.FLOAT16, [65504.0])],
)
def test_the_last_numbers_that_fit(text: str, dtype: DType, limit: list[float]) -> None:
    assert array_of(literal(text), dtype, None, fail).tolist() == limit


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("word", "expected a literal, got word"),
        ("@g", "@g is not known here"),
        ("%x", "%x is not known here"),
        ('hex("00")', "expected base64(string) or array(dtype, elements), got hex(...)"),
        ('array(u8, "AAA=", shape: [2])', "array(...) takes no named arguments"),
        ("array(u8)", "expected base64(string) or array(dtype, elements), got array(...)"),
        ('array(i4, "")', "expected the dtype of an array, got i4"),
        ('array(u8, "AA==", 1)', "expected a shape: a list of integers of at least 0"),
        ('array(u8, "AA==", [-1])', "expected a shape: a list of integers of at least 0"),
        ('array(u8, "AA==", [2])', "expected 2 bytes for u8[2], got 1"),
        ('base64("A")', "the string is not valid base64"),
        ("base64(A)", "expected a base64 string"),
    ],
)
def test_trees_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        tree(text)
    assert message in str(error.value)


def test_arrays_in_trees() -> None:
    assert tree('array(u8, "", [0, 3])').shape == (0, 3)
    assert tree('array(i16, "AQACAA==")').tolist() == [1, 2]
    assert tree("array(f32, [0.5])").dtype == np.float32


@pytest.mark.parametrize(
    ("text", "allowed", "alike", "dtype"),
    [
        ("[1]", [], None, "i32"),
        ("[1]", [], DType.INT8, "i8"),
        ("[1.0]", [], DType.INT8, "f32"),
        ("[1]", [DType.FLOAT32, DType.INT32], None, "f32"),
        ("[1]", [DType.FLOAT32, DType.INT32], DType.INT32, "i32"),
        ("[1.5]", [DType.INT8, DType.FLOAT16], DType.INT8, "f16"),
        ("[true]", [DType.FLOAT32, DType.BOOL], None, "bool"),
        ("[1]", [DType.INT4, DType.INT8], None, "i8"),
    ],
)
def test_dtypes_of_inline_constants(text: str, allowed: list[DType], alike: DType | None, dtype: str) -> None:
    assert DType.of(inline_array(literal(text), allowed, alike, fail).dtype).short == dtype


# -- attributes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1, True),
        (1, 2, False),
        (1, 1.0, True),
        (0.1, np.float32(0.1), True),
        (0.1, 0.1 + 1e-12, True),
        (0.1, 0.11, False),
        (2**53, 2**53 + 1, False),
        (2, 2.5, False),
        (2, 2.0, True),
        (True, 1, False),
        (True, True, True),
        ([1, 2], (1, 2), True),
        ([1, 2], [1], False),
        (np.array([1, 2]), [1, 3], False),
        ("a", "a", True),
        (Activation.RELU, Activation.RELU6, False),
        (None, 0, False),
    ],
)
def test_same_attribute(a: object, b: object, same: bool) -> None:
    assert same_attribute(a, b) is same
    assert same_attribute(b, a) is same


def attribute(default: object, text: str) -> Any:
    spec = Attribute(default, None, is_graph=False)
    spec.name = "attr"
    return attribute_of(spec, literal(text), {}, fail)


@pytest.mark.parametrize(
    ("default", "text", "value"),
    [
        (1, "-7", -7),
        (1, str(2**63 - 1), 2**63 - 1),
        (1, str(-(2**63)), -(2**63)),
        (1.0, "0.1", 0.1),
        (1.0, "3", 3.0),
        (1.0, "3.4028235e38", 3.4028235e38),
        (1.0, "inf", float("inf")),
        (1.0, "-inf", float("-inf")),
        (False, "true", True),
        ("", '"text"', "text"),
        ((), "[1, [2.5]]", (1, (2.5,))),
        (Activation.NONE, "RELU", Activation.RELU),
        (DType.INT8, "f32", DType.FLOAT32),
        (None, "{a: 1}", {"a": 1}),
    ],
)
def test_attributes(default: object, text: str, value: object) -> None:
    found = attribute(default, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("default", "text", "message"),
    [
        (1, "1.0", "attr is 1.0, expected an integer"),
        (1, str(2**63), "attr does not fit 64 bits"),
        (1, str(-(2**63) - 1), "attr does not fit 64 bits"),
        (1, "true", "attr is True, expected an integer"),
        (1.0, '"1"', "attr is '1', expected a number"),
        (1.0, str(2**63), "attr does not fit 64 bits"),
        (1.0, "1e300", "attr: 1e+300 does not fit f32"),
        (1.0, "-3.4028236e38", "attr: -3.4028236e+38 does not fit f32"),
        ((), "[1, [1e39]]", "attr: 1e+39 does not fit f32"),
        (False, "1", "attr is 1, expected true or false"),
        ("", "word", "expected a literal, got word; write strings in quotes"),
        ("", "1", "attr is 1, expected a string"),
        ((), "1", "attr is 1, expected a list"),
        (Activation.NONE, '"RELU"', 'attr cannot be "RELU"; did you mean RELU'),
    ],
)
def test_attributes_that_do_not_fit(default: object, text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        attribute(default, text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (DType.INT8, "i8"),
        (Activation.RELU, "RELU"),
        (0.1, "0.1"),
        (np.float64(1) / 3, "0.33333334"),
        ((1, [2.0]), "[1, [2.0]]"),
        (True, "true"),
        (Graph("g"), "@g"),
    ],
)
def test_attributes_as_text(value: object, text: str) -> None:
    assert format_attribute(value, lambda graph: "@" + graph.name) == text


@pytest.mark.parametrize(
    ("shape", "text"),
    [((0,), "[]"), ((), "1.0"), ((0, 3), None), ((1000, 0), None), ((2, 1), "[[1.0], [1.0]]")],
)
@pytest.mark.parametrize("count", [MAX_INLINE_ELEMENTS - 1, MAX_INLINE_ELEMENTS, MAX_INLINE_ELEMENTS + 1])
def test_small_constants_are_shown_in_place_of_their_names(
    shape: tuple[int, ...], text: str | None, count: int
) -> None:
    names = Names()
    assert names.operand(Value.constant("c", np.ones(shape, np.float32))) == (text or "%c")
    shown = names.operand(Value.constant("c", np.ones(count, np.float32)))
    assert (shown == "%c") == (count > MAX_INLINE_ELEMENTS)
    data = np.arange(count, dtype=np.int8)
    shortened = payload(Value.constant("c", data), data, None, shorten=True)
    assert ("..." in shortened) == (count > MAX_INLINE_ELEMENTS)
