# SPDX-License-Identifier: Apache-2.0
"""Write a TensorFlow model as TFLite.

    tensorflow_model.py KIND INPUT OUTPUT [--input_arrays A,B] [--input_shapes 1,2:3] [--output_arrays C]
        [--bcq] [--keep_batchmatmul]

This is a program of its own, for any Python that has tensorflow.
KIND: graph_def (a file with a GraphDef, binary or text), saved_model or keras_model.
--input_arrays, --input_shapes, --output_arrays: inputs and outputs of a graph_def; other kinds state theirs.
--bcq: add ONE's metadata of binary-coded weights (BCQ: sums of scaled binary codes) to a binary GraphDef, as
further outputs.
--keep_batchmatmul: keep BATCH_MATMUL, which the converter would otherwise replace by FULLY_CONNECTED.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

MISSING = 3
"""The exit code if tensorflow is not installed."""

BCQ_MARK = "/bcqinfo_"
"""Binary-coded weights with the name W are described by constants with the names W + BCQ_MARK + NAME.

NAME is one of BCQ_NAMES, or BCQ_OPTIONAL.
"""

BCQ_NAMES = (
    "do_w_x", "alpha", "packed_binary_code", "number_of_clusters", "size_of_clusters", "qbits_of_clusters",
)  # fmt: skip
"""The ends of the names of the constants that describe binary-coded weights."""

BCQ_OPTIONAL = "dequant_weight"
"""The end of the name of one more constant, which binary-coded weights may have."""

BCQ_METADATA = "one_compiler/bcqinfo_one_metadata"
"""The name of the constant with ONE's metadata.

It has five numbers: BCQ_START; BCQ_VERSION; the number of outputs; the number of constants of each weight,
plus 1; BCQ_END.
"""

BCQ_START, BCQ_VERSION, BCQ_END = -1_999_999_973, 1, 1_999_999_973
"""See BCQ_METADATA."""


def main() -> int:
    """Convert the model that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("graph_def", "saved_model", "keras_model"))
    parser.add_argument("input")
    parser.add_argument("output")
    for flag in ("--input_arrays", "--input_shapes", "--output_arrays"):
        parser.add_argument(flag)
    for flag in ("--bcq", "--keep_batchmatmul"):
        parser.add_argument(flag, action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tensorflow as tf  # installed with the converter
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        return MISSING
    try:
        check(arguments)
        content = convert(tf, arguments)
    except Exception as error:  # any error is printed without a traceback, as in ONE
        name = "generate_bcq_metadata.py" if getattr(error, "is_bcq", False) else "tf2tfliteV2.py"
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        return 255
    with open(arguments.output, "wb") as file:  # noqa: PTH123  # this script has no other use of pathlib
        file.write(content)
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Raise ValueError, in ONE's words, for names and shapes that are missing or do not fit together."""
    shapes, names = arguments.input_shapes, arguments.input_arrays
    if shapes and not names:
        raise ValueError("--input_shapes must be used with --input_arrays")
    if shapes and shapes.count(":") != names.count(","):
        raise ValueError("--input_shapes and --input_arrays must have the same number of items")
    if arguments.kind == "graph_def" and not (names and arguments.output_arrays):
        raise ValueError(f"--{'output' if names else 'input'}_arrays must be provided")


def convert(tf: Any, arguments: argparse.Namespace) -> bytes:
    """Convert the model that ``arguments`` describe; return the bytes of the TFLite model."""
    if arguments.kind == "saved_model":
        converter = tf.lite.TFLiteConverter.from_saved_model(arguments.input)
    elif arguments.kind == "keras_model":
        converter = tf.lite.TFLiteConverter.from_keras_model(tf.keras.models.load_model(arguments.input))
    else:
        function = frozen_function(tf, arguments)
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
    if arguments.keep_batchmatmul:
        converter._experimental_disable_batchmatmul_unfold = True
    converter.allow_custom_ops = True
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    content: bytes = converter.convert()
    return content


def frozen_function(tf: Any, arguments: argparse.Namespace) -> Any:
    """Return the GraphDef in the file ``arguments.input`` as a TensorFlow function.

    ``arguments`` has the names and shapes of its inputs, and the names of its outputs.
    """
    inputs, outputs = arguments.input_arrays.split(","), arguments.output_arrays.split(",")
    shapes = arguments.input_shapes.split(":") if arguments.input_shapes else []
    sizes = [[int(size) for size in shape.split(",")] for shape in shapes]
    if arguments.bcq:
        try:
            graph_def = tf.compat.v1.GraphDef()
            with open(arguments.input, "rb") as file:  # noqa: PTH123  # no other use of pathlib
                graph_def.ParseFromString(file.read())
            outputs = add_bcq_metadata(tf, graph_def, outputs)
        except Exception as error:
            error.is_bcq = True  # type: ignore[attr-defined]  # ``main`` reads it for the message
            raise
    else:
        graph_def = read_graph(tf, arguments.input)

    def import_graph() -> None:
        """Add the operators of ``graph_def`` to the graph that ``wrap_function`` makes."""
        tf.compat.v1.import_graph_def(graph_def, name="")

    wrapped = tf.compat.v1.wrap_function(import_graph, [])

    def tensors(names: list[str]) -> list[Any]:
        """Return the tensors with these names; the name of an operator stands for its first result."""
        return [wrapped.graph.as_graph_element(n if ":" in n else f"{n}:0") for n in names]

    function = wrapped.prune(tensors(inputs), tensors(outputs))
    for tensor, size in zip(function.inputs, sizes):  # noqa: B905  # further inputs are weights
        tensor.set_shape(size)
    return function


def read_graph(tf: Any, path: str) -> Any:
    """Return the GraphDef in the file ``path``, binary or text; raise OSError if it has none."""
    from google.protobuf import text_format  # installed with the converter
    from google.protobuf.message import DecodeError  # installed with the converter

    with open(path, "rb") as file:  # noqa: PTH123  # no other use of pathlib
        content = file.read()
    graph_def = tf.compat.v1.GraphDef()
    try:
        graph_def.ParseFromString(content)
    except DecodeError:
        graph_def = tf.compat.v1.GraphDef()
        try:
            text_format.Merge(content, graph_def)
        except (text_format.ParseError, UnicodeDecodeError):
            raise OSError(f"Unable to parse input file '{path}'.") from None
    return graph_def


def add_bcq_metadata(tf: Any, graph_def: Any, outputs: list[str]) -> list[str]:
    """Add the metadata of binary-coded weights to ``graph_def``; return the names of the graph's outputs.

    If ``graph_def`` has metadata already, these are kept.
    The metadata, the weights and their constants become outputs, so that the converter keeps them.  Each of
    these weights must have all constants of BCQ_NAMES; BCQ_OPTIONAL must belong to all of them or to none.
    Otherwise, and if there are no such weights, return ``outputs`` and change nothing.
    """
    described: dict[str, set[str]] = {}
    for node in graph_def.node:
        if node.op == "Const" and BCQ_MARK in node.name and node.name != BCQ_METADATA:
            weight, _, name = node.name.partition(BCQ_MARK)
            described.setdefault(weight, set()).add(name)
    counts = {len(names) for names in described.values()}
    # all weights have BCQ_OPTIONAL, or none has it
    if len(counts) != 1 or any(names - {BCQ_OPTIONAL} != {*BCQ_NAMES} for names in described.values()):
        return outputs
    if all(node.name != BCQ_METADATA for node in graph_def.node):
        values = [BCQ_START, BCQ_VERSION, len(outputs), counts.pop() + 1, BCQ_END]
        node = graph_def.node.add(op="Const", name=BCQ_METADATA)
        node.attr["dtype"].type = tf.int32.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(values, tf.int32))
    all_outputs = [BCQ_METADATA, *outputs]
    has_optional = any(BCQ_OPTIONAL in names for names in described.values())
    for weight in sorted(described):
        all_outputs += [f"{weight}{BCQ_MARK}{name}" for name in BCQ_NAMES]
        all_outputs += [weight, *([f"{weight}{BCQ_MARK}{BCQ_OPTIONAL}"] if has_optional else [])]
    return all_outputs


if __name__ == "__main__":
    sys.exit(main())
