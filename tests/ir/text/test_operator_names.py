# SPDX-License-Identifier: Apache-2.0
"""Names of operators in other frameworks suggest those of the schema, in texts, pictures and recipes."""

from __future__ import annotations

import re

import pytest

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.errors import ParseError
from circlekit.ir.op import REGISTRY
from circlekit.ir.text import parse_model
from circlekit.ir.text.operator_names import OTHER_NAMES, suggest_operator
from circlekit.recipes.prototext.message_types import operator_types
from circlekit.rewrite.picture import parse_picture
from tests.ir.recipes import graph_text

CLASSES = [cls.__name__ for cls in REGISTRY.values()]


def test_every_suggestion_exists_and_every_other_name_is_unknown() -> None:
    """OTHER_NAMES is {operators to suggest: names in other frameworks}, such as {"Logistic": "Sigmoid"}."""
    words = [word for phrase in OTHER_NAMES for word in re.findall(r"[A-Z]\w*", phrase)]
    assert not {*words} - {*CLASSES}
    others = [name.lower().replace("_", "") for names in OTHER_NAMES.values() for name in names.split()]
    assert len(others) == len({*others}) > 150
    assert not {*others} & {name.lower() for name in CLASSES}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Sigmoid", "; did you mean Logistic?"),
        ("sigmoid", "; did you mean Logistic?"),
        ("torch.nn.functional.sigmoid_", "; did you mean Logistic?"),
        ("aten::relu_", "; did you mean Relu?"),
        ("RELU", "; did you mean Relu?"),
        ("ReLU6", "; did you mean Relu6?"),
        ("relu_n1_to_1", "; did you mean ReluN1To1?"),
        ("PReLU", "; did you mean PRelu?"),
        ("conv_2d", "; did you mean Conv2D?"),
        ("Conv2d", "; did you mean Conv2D?"),
        ("FULLY_CONNECTED", "; did you mean FullyConnected?"),
        ("Gemm", "; did you mean FullyConnected?"),
        ("tf.linalg.matmul", "; did you mean BatchMatMul or FullyConnected?"),
        ("ConvTranspose", "; did you mean TransposeConv?"),
        ("Upsample", "; did you mean ResizeNearestNeighbor or ResizeBilinear?"),
        ("ReduceMean", "; did you mean Mean?"),
        ("AvgPool2d", "; did you mean AveragePool2D?"),
        ("hardtanh", "; did you mean ReluN1To1?"),
        ("BatchNormalization", "; write it as Mul and Add"),
        ("nn.SiLU", "; write it as Logistic and Mul"),
        ("reciprocal", "; write it as Div with 1 as its first operand"),
        ("Logistc", "; did you mean Logistic?"),
        ("Absolut", "; did you mean Abs?"),
        ("Sigmiod", "; did you mean Logistic?"),
        ("Frobnicate", ""),
        ("...", ""),
        ("", ""),
    ],
)
def test_names_of_other_frameworks(name: str, hint: str) -> None:
    assert suggest_operator(name, CLASSES) == hint


def test_suggestions_are_spelled_as_in_the_list_of_known_names() -> None:
    types = operator_types("tflite")
    assert suggest_operator("Relu6", types) == "; did you mean ReLU6?"
    assert suggest_operator("Sigmoid", [*REGISTRY]) == "; did you mean LOGISTIC?"
    assert suggest_operator("BatchNormalization", ["ADD", "MUL"]) == "; write it as MUL and ADD"
    assert suggest_operator("BatchNormalization", ["ADD"]) == "", "the list lacks MUL"


def test_texts_and_pictures_suggest_operators() -> None:
    message = "no operator is named Sigmoid; did you mean Logistic?"
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_model(graph_text("%y = Sigmoid(%x)"))
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_picture("y = Sigmoid(x)", "before")
