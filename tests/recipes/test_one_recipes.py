# SPDX-License-Identifier: Apache-2.0
"""Independent readers find the content of every recipe of ONE in the model built from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from circlekit.io.write.save import to_bytes
from circlekit.ir.model_equality import difference
from circlekit.recipes.load import load_recipe
from circlekit.recipes.recipe_export import write_recipe
from tests.io.oracles import CIRCLE, LITERT, TFLITE, Oracle
from tests.recipes.one_recipes import Message, each_recipe, read

ELEMENTS = {
    "FLOAT32": "<f4", "FLOAT16": "<f2", "INT32": "<i4", "INT64": "<i8", "INT16": "<i2", "INT8": "i1",
    "UINT8": "u1", "BOOL": "?",
}  # fmt: skip

CODES = {"L2NORMALIZE": "L2NORMALIZATION"}
"""Types that differ from the operator code by more than underscores and capitals."""

FIELDS = {"activation": "FusedActivationFunction", "squeeze_dim": "SqueezeDims"}
FIELDS |= {"adj_x": "AdjX", "adj_y": "AdjY", "adjoint_lhs": "AdjointLhs", "adjoint_rhs": "AdjointRhs"}

DEFAULTS = {
    "Padding": "VALID", "StrideW": 1, "StrideH": 1, "FilterWidth": 1, "FilterHeight": 1, "DilationWFactor": 1,
    "DilationHFactor": 1, "FusedActivationFunction": 0, "KeepDims": False,
}  # fmt: skip
"""The values of fields that a recipe does not give.

The defaults of padding, strides and filter sizes differ from those of the schema.
"""


def camel(name: str) -> str:
    return FIELDS.get(name) or "".join(part[:1].upper() + part[1:] for part in name.split("_"))


@each_recipe
def test_recipe_of_one(path: Path, tmp_path: Path) -> None:
    """Other people's readers find the recipe's content in the file that is made from it.

    LiteRT loads the file if it is TFLite.  The model, written as a ``test.recipe`` and as a ``.ck`` recipe,
    is read back equal.
    """
    message = read(path.read_text())
    model = load_recipe(path)
    data = to_bytes(model)
    oracles = [CIRCLE] if "Circle" in path.parent.parent.name else [TFLITE, LITERT]
    assert model.format == oracles[0].format
    for oracle in oracles:
        compare(message, oracle, oracle.read(data))
    if model.format == "tflite":
        Interpreter(model_content=data)
    for name in ("test.recipe", "test.ck"):
        write_recipe(model, tmp_path / name, model.format)
        assert difference(load_recipe(tmp_path / name, model.format), model) is None


def compare(message: Message, oracle: Oracle, seen: Any) -> None:
    graphs = [message, *message.all("graph")]
    names = [str(g.one("name", f"sub_{i}" if i else "main")) for i, g in enumerate(graphs)]
    assert [g["Name"].decode() for g in seen["Subgraphs"]] == names
    for graph, tree in zip(graphs, seen["Subgraphs"], strict=True):
        Comparison(oracle, seen, tree, graph, graphs).run()
    for signature, tree in zip(message.all("signature_def"), seen["SignatureDefs"] or [], strict=True):
        assert tree["SignatureKey"].decode() == signature.one("signature_key")
        for side in ("inputs", "outputs"):
            ports = {p["Name"].decode(): p["TensorIndex"] for p in tree[camel(side)]}
            assert ports == {p.one("name"): int(p.one("tensor_index")) for p in signature.all(side)}


class Comparison:
    """Comparison of one graph of a recipe with what a reader finds."""

    def __init__(self, oracle: Oracle, seen: Any, tree: Any, graph: Message, graphs: list[Message]) -> None:
        self.oracle = oracle
        self.seen = seen
        self.tree = tree
        self.graph = graph
        self.graphs = graphs
        self.names = [operand.one("name") for operand in graph.all("operand")]

    def run(self) -> None:
        assert [t["Name"].decode() for t in self.tree["Tensors"]] == self.names
        for operand, tensor in zip(self.graph.all("operand"), self.tree["Tensors"], strict=True):
            self.operand(operand, tensor)
        for side in ("input", "output"):
            assert self.names_of(self.tree[camel(side + "s")]) == self.graph.all(side)
        for operation, operator in zip(self.graph.all("operation"), self.tree["Operators"], strict=True):
            self.operation(operation, operator)

    def names_of(self, indices: Any) -> list[str]:
        return ["" if i < 0 else self.names[i] for i in ([] if indices is None else indices)]

    def number(self, enum: str, word: str) -> int:
        return int(word) if word.lstrip("-").isdigit() else self.oracle.enums[enum][word]

    # -- operands ------------------------------------------------------------------------------

    def operand(self, message: Message, tensor: Any) -> None:
        assert tensor["Type"] == self.number("TensorType", message.one("type"))
        assert tensor["IsVariable"] == (message.one("is_variable") == "true")
        for field in ("shape", "shape_signature"):
            dims = message.one(field)
            assert dims is None or list(tensor[camel(field)]) == [int(d) for d in dims.all("dim")]
        quant, stored = message.one("quant"), tensor["Quantization"]
        for name, kind in (("min", "<f4"), ("max", "<f4"), ("scale", "<f4"), ("zero_point", "<i8")):
            if quant is not None:
                values = np.array(quant.all(name), np.float64).astype(kind)
                assert np.array_equal(stored[camel(name)] if len(values) else values, values)
        if quant is not None:
            assert stored["QuantizedDimension"] == int(quant.one("quantized_dimension", 0))
        if message.one("mx_quant") is not None:
            assert stored["Details"] == {
                "": "MXQuantization",
                "Axis": int(message.one("mx_quant").one("axis")),
            }
        data = self.seen["Buffers"][tensor["Buffer"]]["Data"]
        if message.one("filler") is not None:
            self.filler(message, message.one("filler"), data)
        else:
            assert data is None

    def filler(self, message: Message, filler: Message, data: Any) -> None:
        tag, args = filler.one("tag"), filler.all("arg")
        dims = message.one("shape", Message([])).all("dim")
        count = int(np.prod([int(d) for d in dims])) if message.one("shape") else len(args)
        kind = ELEMENTS.get(message.one("type"))
        if message.one("type") == "STRING":
            assert int(np.frombuffer(data[:4], "<i4")[0]) == count
            assert bytes(data).endswith("".join(args).encode())
        elif kind is None:  # four bits
            assert len(data) == (count + 1) // 2
            nibbles = [byte >> shift & 15 for byte in data for shift in (0, 4)]
            assert tag == "gaussian" or nibbles[: len(args)] == [int(a) % 16 for a in args]
        elif tag == "gaussian":
            values = np.frombuffer(data, kind).astype(np.float64)
            mean, deviation = map(float, args)
            assert len(values) == count
            assert abs(values.mean() - mean) <= 6 * deviation / count**0.5 + (kind[1] != "f")
            assert np.abs(values - mean).max() <= 6 * deviation
        else:
            wanted = np.zeros(count, kind)
            numbers = [{"T": 1.0}.get(arg) or float(arg.rstrip("f")) for arg in args]
            wanted[: count if tag == "constant" else len(args)] = numbers[0] if tag == "constant" else numbers
            assert np.array_equal(np.frombuffer(data, kind), wanted)

    # -- operations ----------------------------------------------------------------------------

    def operation(self, message: Message, operator: Any) -> None:
        type_ = message.one("type").upper()
        code = self.seen["OperatorCodes"][operator["OpcodeIndex"]]
        numbers = self.oracle.enums["BuiltinOperator"].items()
        name = next(k for k, v in numbers if v == self.code(code)).replace("_", "")
        assert name in (CODES.get(type_, type_), "PLACEHOLDERFORGREATEROPCODES")
        assert (code["CustomCode"] or b"").decode() == message.one("custom_code", "")
        assert code["Version"] == max(self.versions(message))
        assert self.names_of(operator["Inputs"]) == message.all("input")
        assert self.names_of(operator["Outputs"]) == message.all("output")
        if name != "CUSTOM":
            self.options(message, operator["BuiltinOptions"])

    def code(self, code: Any) -> int:
        """Return the operator code: files have it twice, and some packages read only one of the fields."""
        number: int = code.get("BuiltinCode", code["DeprecatedBuiltinCode"])
        assert code["DeprecatedBuiltinCode"] == min(number, 127)
        return number

    def versions(self, message: Message) -> Iterator[int]:
        """Yield the versions of all operations of the same type, of which a file has only the highest."""
        for graph in self.graphs:
            for other in graph.all("operation"):
                if [other.one(n) for n in ("type", "custom_code")] == [
                    message.one(n) for n in ("type", "custom_code")
                ]:
                    yield int(other.one("version", 1))

    def options(self, message: Message, options: Any) -> None:
        """Assert every field that the recipe gives, and the default of fields in DEFAULTS that it lacks."""
        if options is None:
            return
        given = [value for name, value in message.fields if name.endswith("_options")]
        if message.one("type") == "Minimum":
            given = []  # recipes give a Minimum the options of Maximum
        for name, word in given[0].fields if given else []:
            value = options[camel(name)]
            if isinstance(value, np.ndarray):
                assert list(value) == [int(w) for w in given[0].all(name)]
            else:
                assert value == self.plain(name, word, value)
        for field in options.keys() & DEFAULTS.keys():
            if all(camel(name) != field for name, _ in (given[0].fields if given else [])):
                default = DEFAULTS[field]
                assert options[field] == (
                    self.number(field, default) if isinstance(default, str) else default
                )

    def plain(self, name: str, word: str, value: Any) -> Any:
        """Convert a word of a recipe to the type of the reader's value."""
        if isinstance(value, bool):
            return word == "true"
        if isinstance(value, float):
            return float(np.float32(word.rstrip("f")))
        enum = {"activation": "ActivationFunctionType", "padding": "Padding", "mode": "MirrorPadMode"}
        return self.number(enum.get(name, "TensorType"), word)
