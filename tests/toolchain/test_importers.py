# SPDX-License-Identifier: Apache-2.0
"""The programs that convert ONNX, TensorFlow and PyTorch models, with stand-ins for their libraries."""

from __future__ import annotations

import argparse
import copy
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from circlekit.toolchain import importers
from circlekit.toolchain.importers import onnx_model, pytorch_model, tensorflow_model
from circlekit.toolchain.option import StepFailed

PROGRAMS = [
    (onnx_model, ["a.onnx", "a.tflite", "a.npz"], "onnx"),
    (pytorch_model, ["a.pt2", "a.circle"], "tico"),
    (tensorflow_model, ["saved_model", "a", "a.tflite"], "tensorflow"),
]


def call(program: Any, words: list[str], modules: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["program", *words])
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    code: int = program.main()
    return code


@pytest.mark.parametrize(("program", "words", "library"), PROGRAMS)
def test_a_missing_library_has_an_exit_code_of_its_own(
    program: Any, words: list[str], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = call(program, words, {library: None}, monkeypatch)
    assert code == program.MISSING == importers.MISSING
    assert code not in (0, 255)


# -- ONNX --------------------------------------------------------------------------------------


def declared(name: str, *sizes: int) -> Any:
    """Return a declaration of an input or output as ONNX has it; 0: an unknown size."""
    dims = [SimpleNamespace(dim_value=size) for size in sizes]
    return SimpleNamespace(
        name=name, type=SimpleNamespace(tensor_type=SimpleNamespace(shape=SimpleNamespace(dim=dims)))
    )


def node(name: str, inputs: list[str], *outputs: str) -> Any:
    return SimpleNamespace(name=name, input=inputs, output=list(outputs))


class OnnxModel(SimpleNamespace):
    """An ONNX model of five nodes.  Their results: two tensors, integers, no elements, float32, float32."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = SimpleNamespace(
            initializer=[SimpleNamespace(name="w")],
            input=[declared("x", 0, 3), declared("w", 3), declared("scalar"), declared("fixed", 2, 0)],
            output=[declared("y", 0, 3)],
            node=[
                node("split", ["x"], "two", "three"),
                node("ints", ["x"], "i"),
                node("none", ["x"], "e"),
                node("", [], "h"),
                node("last", ["h", "w"], "y"),
            ],
        )

    def CopyFrom(self, other: Any) -> None:  # noqa: N802  # protobuf's name
        self.graph = copy.deepcopy(other.graph)

    def SerializeToString(self) -> Any:  # noqa: N802  # protobuf's name
        return self


VALUES: dict[str, Any] = {
    "i": np.arange(3), "e": np.zeros(0, np.float32), "h": np.array([[3.0, -1.0]], np.float32),
    "y": np.array([2.0, 4.0, 0.0], np.float32),
}  # fmt: skip


class Session:
    """A session of onnxruntime whose outputs are VALUES."""

    def __init__(self, model: Any, *_: Any, providers: list[str]) -> None:
        outputs = model.graph.output if isinstance(model, OnnxModel) else [declared("y")]
        self.names = [item.name for item in outputs]
        self.given: list[dict[str, Any]] = []

    def get_inputs(self) -> list[Any]:
        return [
            SimpleNamespace(name="x", type="tensor(float)", shape=["batch", 30, 40]),
            SimpleNamespace(name="k", type="tensor(int64)", shape=[50, None]),
            SimpleNamespace(name="d", type="tensor(double)", shape=[2]),
        ]

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name=name) for name in self.names]

    def run(self, names: None, inputs: dict[str, Any]) -> list[Any]:
        self.given.append(inputs)
        return [VALUES[name] for name in self.names]


RUNTIME = SimpleNamespace(
    InferenceSession=Session,
    SessionOptions=SimpleNamespace,
    GraphOptimizationLevel=SimpleNamespace(ORT_DISABLE_ALL=0),
)
ONNX = SimpleNamespace(ModelProto=OnnxModel, ValueInfoProto=declared)


def test_onnx_inputs_are_those_without_constants_and_unknown_batches_become_1() -> None:
    model = OnnxModel()
    assert [item.name for item in onnx_model.graph_inputs(model)] == ["x", "scalar", "fixed"]
    onnx_model.make_batch_single(model)
    sizes = [
        [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        for item in (*model.graph.input, *model.graph.output)
    ]
    assert sizes == [[1, 3], [3], [], [2, 0], [1, 3]]


def test_seeded_onnx_inputs() -> None:
    inputs = onnx_model.seeded_inputs(np, Session(None, providers=[]))
    assert {name: (x.shape, x.dtype.name) for name, x in inputs.items()} == {
        "x": ((1, 30, 40), "float32"), "k": ((50, 1), "int64"), "d": ((2,), "float64"),
    }  # fmt: skip
    assert abs(inputs["x"].mean()) < 0.15
    assert 0.85 < inputs["x"].std() < 1.15
    assert set(np.unique(inputs["k"])) == {0, 1}
    again = onnx_model.seeded_inputs(np, Session(None, providers=[]))
    np.testing.assert_array_equal(inputs["x"], again["x"])


def test_onnx_nodes_with_one_float_result_are_recorded() -> None:
    record = onnx_model.nodes_of(np, ONNX, RUNTIME, OnnxModel())
    assert record["nodes"].tolist() == ["h", "last"]
    assert record["operands"].tolist() == ["", "h"]
    assert record["results"].tolist() == ["h", "y"]
    # number of elements, mean, mean of the squares, least, largest
    expected = [[2, 1.0, 5.0, -1.0, 3.0], [3, 2.0, 20 / 3, 0.0, 4.0]]
    np.testing.assert_allclose(record["fingerprints"], expected)
    empty = OnnxModel()
    empty.graph.node.clear()
    assert onnx_model.nodes_of(np, ONNX, RUNTIME, empty)["fingerprints"].shape == (0, 5)


class Converter:
    """A stand-in for onnx2tf: it writes a file, or raises ``fault``."""

    def __init__(self, fault: BaseException | None = None) -> None:
        self.fault = fault
        self.options: dict[str, Any] = {}

    def convert(self, output_folder_path: str, **options: Any) -> None:
        if self.fault is not None:
            raise self.fault
        self.options = options
        Path(output_folder_path).mkdir()
        (Path(output_folder_path) / "model_float32.tflite").write_bytes(b"TFLite")


def import_onnx(converter: Converter, folder: Path, monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    onnx = SimpleNamespace(**vars(ONNX), load=lambda path: OnnxModel(), save=lambda model, path: None)
    modules = {"onnx": onnx, "onnx2tf": converter, "onnxruntime": RUNTIME}
    words = ["a.onnx", str(folder / "a.tflite"), str(folder / "a.npz"), *flags]
    return call(onnx_model, words, modules, monkeypatch)


@pytest.mark.parametrize("flag", ["--unroll", "--keep_batchmatmul", "--verbose", "--single_batch"])
def test_onnx_is_converted_and_recorded(flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converter = Converter()
    assert import_onnx(converter, tmp_path, monkeypatch, flag) == 0
    assert (tmp_path / "a.tflite").read_bytes() == b"TFLite"
    with np.load(tmp_path / "a.npz") as record:
        assert record["inputs"].tolist() == ["x", "k", "d"]
        assert record["outputs"].tolist() == ["y"]
        assert record["in1"].shape == (50, 1)
        np.testing.assert_array_equal(record["out0"], VALUES["y"])
        assert record["results"].tolist() == ["h", "y"]
    assert converter.options["enable_rnn_unroll"] is (flag == "--unroll")
    assert converter.options["enable_batchmatmul_unfold"] is (flag != "--keep_batchmatmul")
    assert converter.options["non_verbose"] is (flag != "--verbose")
    assert converter.options["keep_shape_absolutely_input_names"] == ["x", "scalar", "fixed"]


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        (SystemExit(7), 7, "it could not convert"),
        (SystemExit(0), 255, "it could not convert"),
        (SystemExit("text"), 255, "it could not convert"),
        (ValueError("odd"), 255, "ValueError: odd"),
    ],
)
def test_a_failure_of_onnx2tf_is_reported_with_an_exit_code_other_than_0(
    fault: BaseException,
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert import_onnx(Converter(fault), tmp_path, monkeypatch) == code
    assert message in capsys.readouterr().err


# -- TensorFlow --------------------------------------------------------------------------------


def arguments(kind: str = "graph_def", **given: Any) -> argparse.Namespace:
    names = ("input_arrays", "input_shapes", "output_arrays")
    return argparse.Namespace(
        kind=kind, input="in", **{name: given.pop(name, None) for name in names}, **given
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_shapes": "1,2"}, "must be used with --input_arrays"),
        ({"input_shapes": "1:2", "input_arrays": "a"}, "the same number"),
        ({"input_shapes": "1", "input_arrays": "a,b"}, "the same number"),
        ({"input_arrays": "a"}, "--output_arrays must"),
        ({"output_arrays": "a"}, "--input_arrays must"),
        ({}, "--input_arrays must"),
    ],
)
def test_names_and_shapes_that_do_not_fit(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tensorflow_model.check(arguments(**given))


def test_names_and_shapes_that_fit() -> None:
    tensorflow_model.check(arguments(input_arrays="a,b", input_shapes="1,2:3", output_arrays="c"))
    tensorflow_model.check(arguments(input_arrays="a", output_arrays="c"))
    tensorflow_model.check(arguments("saved_model"))
    tensorflow_model.check(arguments("keras_model", input_arrays="a", input_shapes="1"))


class Nodes(list[Any]):
    """The repeated field ``node`` of a GraphDef."""

    def add(self, op: str, name: str) -> Any:
        tensor: Any = SimpleNamespace()
        tensor.CopyFrom = lambda values: setattr(tensor, "values", values)
        made = SimpleNamespace(
            op=op, name=name, attr=defaultdict(lambda: SimpleNamespace(type=None, tensor=tensor))
        )
        self.append(made)
        return made


TF = SimpleNamespace(
    int32=SimpleNamespace(as_datatype_enum=3), make_tensor_proto=lambda values, dtype: list(values)
)
W = [f"w{tensorflow_model.BCQ_MARK}{name}" for name in tensorflow_model.BCQ_NAMES]
V = [f"v{tensorflow_model.BCQ_MARK}{name}" for name in tensorflow_model.BCQ_NAMES]
METADATA = tensorflow_model.BCQ_METADATA
MORE = tensorflow_model.BCQ_MARK + tensorflow_model.BCQ_OPTIONAL


def with_metadata(names: list[str]) -> tuple[list[str], Any]:
    """Return the outputs of a graph with constants of these names, and the values of the added metadata.

    The values are None if no metadata are added.
    """
    nodes = Nodes(SimpleNamespace(op="Const", name=name) for name in names)
    nodes.append(SimpleNamespace(op="Neg", name="y" + MORE))
    count = len(nodes)
    outputs = tensorflow_model.add_bcq_metadata(TF, SimpleNamespace(node=nodes), ["y", "z"])
    assert [node.name for node in nodes[count:]] in ([], [METADATA])
    return outputs, nodes[-1].attr["value"].tensor.values if len(nodes) > count else None


def test_binary_coded_weights_become_outputs() -> None:
    """As in ONE's generate_bcq_metadata.py, the order is: metadata, outputs, then constants and weights.

    The fourth number of the metadata counts the constants of a weight, and the weight itself.
    """
    outputs, values = with_metadata([*W, *V, "plain"])
    assert outputs == [METADATA, "y", "z", *V, "v", *W, "w"]
    assert values == [-1_999_999_973, 1, 2, 7, 1_999_999_973]
    outputs, values = with_metadata([*W, "w" + MORE])
    assert outputs == [METADATA, "y", "z", *W, "w", "w" + MORE]
    assert values == [-1_999_999_973, 1, 2, 8, 1_999_999_973]
    outputs, values = with_metadata([METADATA, *W])
    assert outputs == [METADATA, "y", "z", *W, "w"]
    assert values is None


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["plain"],
        W[1:],
        [*W, *V[1:]],
        [*W[1:], *V[1:]],
        [*W, *V, "v" + MORE],
        [*W[1:], "w/bcqinfo_odd"],
        [*W[1:], "w" + MORE],
        [METADATA],
    ],
)
def test_incomplete_binary_coded_weights_change_nothing(names: list[str]) -> None:
    assert with_metadata(names) == (["y", "z"], None)


@pytest.mark.parametrize(
    ("kind", "called"),
    [("saved_model", ["saved a"]), ("keras_model", ["keras loaded a"]), ("graph_def", ["functions ['f']"])],
)
@pytest.mark.parametrize("flags", [[], ["--keep_batchmatmul"]])
def test_each_kind_of_tensorflow_model_has_its_converter(
    kind: str, called: list[str], flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    converter = SimpleNamespace(target_spec=SimpleNamespace(), convert=lambda: b"TFLite")

    def starting(word: str) -> Any:
        def start(given: object) -> Any:
            calls.append(f"{word} {given}")
            return converter

        return start

    tf: Any = ModuleType("tensorflow")
    tf.keras = SimpleNamespace(models=SimpleNamespace(load_model=lambda path: f"loaded {path}"))
    tf.lite = SimpleNamespace(
        OpsSet=SimpleNamespace(TFLITE_BUILTINS=1),
        TFLiteConverter=SimpleNamespace(
            from_saved_model=starting("saved"),
            from_keras_model=starting("keras"),
            from_concrete_functions=starting("functions"),
        ),
    )
    monkeypatch.setattr(tensorflow_model, "frozen_function", lambda tf, arguments: "f")
    words = [kind, "a", str(tmp_path / "a.tflite"), "--input_arrays", "x", "--output_arrays", "y", *flags]
    assert call(tensorflow_model, words, {"tensorflow": tf}, monkeypatch) == 0
    assert (tmp_path / "a.tflite").read_bytes() == b"TFLite"
    assert calls == called
    assert hasattr(converter, "_experimental_disable_batchmatmul_unfold") is bool(flags)
    tf.lite = None  # an unexpected error
    assert call(tensorflow_model, words, {"tensorflow": tf}, monkeypatch) == 255


# -- PyTorch, and the process ------------------------------------------------------------------


def test_an_exported_program_is_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SimpleNamespace(save=lambda path: Path(path).write_bytes(b"circle"))
    torch = SimpleNamespace(export=SimpleNamespace(load=lambda path: path))
    tico = SimpleNamespace(convert_from_exported_program={"a.pt2": model}.__getitem__)
    words = ["a.pt2", str(tmp_path / "a.circle")]
    assert call(pytorch_model, words, {"torch": torch, "tico": tico}, monkeypatch) == 0
    assert (tmp_path / "a.circle").read_bytes() == b"circle"
    assert call(pytorch_model, words, {"torch": torch, "tico": None}, monkeypatch) == pytorch_model.MISSING
    assert call(pytorch_model, words, {"torch": torch, "tico": object()}, monkeypatch) == 255


@pytest.mark.parametrize(
    ("code", "reported"), [(1, 1), (importers.MISSING, 255), (137, 255), (255, 255), (0, None)]
)
def test_the_exit_code_of_an_importer(code: int, reported: int | None) -> None:
    """A converter that is missing, or ends by a signal, counts as 255, as in ONE."""
    session: Any = SimpleNamespace(
        write_log=lambda text: None,
        installation=SimpleNamespace(venv_python=None),
        run=lambda words, is_listed: code,
        report=lambda *words: None,
    )
    if reported is None:
        importers.ONNX.run(session, ["a", "b"], "one-import-onnx", [])
        return
    with pytest.raises(StepFailed) as failed:
        importers.ONNX.run(session, ["a", "b"], "one-import-onnx", [])
    assert failed.value.code == reported


def test_a_frozen_graph_is_pruned_to_the_asked_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of an operator stands for its first result; the third input is a weight."""
    shapes: list[list[int]] = []
    asked: dict[str, Any] = {}

    def prune(inputs: list[str], outputs: list[str]) -> Any:
        asked.update(inputs=inputs, outputs=outputs)
        return SimpleNamespace(inputs=[SimpleNamespace(set_shape=shapes.append)] * 3)

    wrapped = SimpleNamespace(graph=SimpleNamespace(as_graph_element=str), prune=prune)
    tf: Any = SimpleNamespace(
        compat=SimpleNamespace(v1=SimpleNamespace(wrap_function=lambda function, signature: wrapped))
    )
    monkeypatch.setattr(tensorflow_model, "read_graph", lambda tf, path: path)
    given = arguments(input_arrays="a,b:1", input_shapes="1,2:3", output_arrays="c:0,d", bcq=False)
    assert len(tensorflow_model.frozen_function(tf, given).inputs) == 3
    assert asked == {"inputs": ["a:0", "b:1"], "outputs": ["c:0", "d:0"]}
    assert shapes == [[1, 2], [3]]
    tensorflow_model.frozen_function(tf, arguments(input_arrays="a", output_arrays="c", bcq=False))
    assert len(shapes) == 2
