# SPDX-License-Identifier: Apache-2.0
"""Convert an ONNX model to TFLite with onnx2tf, and record its outputs for seeded inputs.

    onnx_model.py INPUT OUTPUT VALUES [--single_batch] [--unroll] [--keep_batchmatmul] [--verbose]

This is a program of its own, for any Python that has onnx2tf.  It writes VALUES, an npz file about the ONNX
model:

- ``in0``, ...: seeded inputs
- ``out0``, ...: the outputs that onnxruntime computes for them
- ``inputs``, ``outputs``: the names of the inputs and of the outputs
- the arrays of ``nodes_of``, from which values of the TFLite model get names

--single_batch: unknown first dimensions become 1.  --unroll: a recurrent operator becomes one group of
operators for each step.  --keep_batchmatmul: a product of batches of matrices stays one operator.

The functions get the imported packages, such as numpy as ``np``, as arguments.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

MISSING = 3
"""The exit code if onnx2tf, onnx, onnxruntime or numpy is not installed."""


def main() -> int:
    """Convert the model that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("input", "output", "values"):
        parser.add_argument(name)
    for flag in ("--single_batch", "--unroll", "--keep_batchmatmul", "--verbose"):
        parser.add_argument(flag, action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # onnx2tf uses Keras 2
    try:
        import numpy as np  # installed with the converter
        import onnx  # installed with the converter
        import onnx2tf  # installed with the converter
        import onnxruntime  # installed with the converter
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        return MISSING
    try:
        model = onnx.load(arguments.input)
        if arguments.single_batch:
            make_batch_single(model)
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.onnx"
            onnx.save(model, path)
            record = values_of(np, onnxruntime, path)
            try:
                record.update(nodes_of(np, onnx, onnxruntime, model))
            except (ValueError, MemoryError) as error:  # a file above 2 GiB, or too many values
                print(f"WARNING: names of nodes are not kept: {error}", file=sys.stderr)
            np.savez(arguments.values, **record)
            inputs = [item.name for item in graph_inputs(model)]
            convert(onnx2tf, path, f"{folder}/out", inputs, arguments)
    except SystemExit as error:  # onnx2tf ends the process for an operator that it does not have
        print("onnx2tf: it could not convert the model", file=sys.stderr)
        return error.code if isinstance(error.code, int) and error.code else 255  # never 0
    except Exception as error:  # any error of the converter is shown without a traceback
        print(f"onnx2tf: {type(error).__name__}: {error}", file=sys.stderr)
        return 255
    return 0


def convert(onnx2tf: Any, path: str, folder: str, inputs: list[str], arguments: argparse.Namespace) -> None:
    """Write the ONNX model in the file ``path`` as TFLite to ``arguments.output``.

    ``folder``: where onnx2tf writes its files.  ``inputs``: the names of the inputs, which keep their shapes.
    """
    onnx2tf.convert(
        input_onnx_file_path=path,
        output_folder_path=folder,
        copy_onnx_input_output_names_to_tflite=True,
        keep_shape_absolutely_input_names=inputs,
        enable_rnn_unroll=arguments.unroll,
        enable_batchmatmul_unfold=not arguments.keep_batchmatmul,
        disable_model_save=False,
        non_verbose=not arguments.verbose,
        verbosity="debug" if arguments.verbose else "error",
    )
    (result,) = Path(folder).glob("*_float32.tflite")
    shutil.move(result, arguments.output)


def graph_inputs(model: Any) -> list[Any]:
    """Return the inputs of an ONNX model without the constants that its list of inputs may have."""
    constants = {item.name for item in model.graph.initializer}
    return [item for item in model.graph.input if item.name not in constants]


def make_batch_single(model: Any) -> None:
    """Set unknown first dimensions of inputs and outputs to 1."""
    for item in (*model.graph.input, *model.graph.output):
        sizes = item.type.tensor_type.shape.dim
        if sizes and not sizes[0].dim_value:
            sizes[0].dim_value = 1


def seeded_inputs(np: Any, run: Any) -> dict[str, Any]:
    """Return a random array for each input of ``run``, an onnxruntime session, by name.

    Unknown dimensions are 1.
    """
    random = np.random.default_rng(0)
    inputs = {}
    for item in run.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in item.shape]
        kind = item.type.removeprefix("tensor(").removesuffix(")")
        dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
        array = random.normal(0, 1, shape) if dtype.startswith("float") else random.integers(0, 2, shape)
        inputs[item.name] = array.astype(dtype)
    return inputs


def nodes_of(np: Any, onnx: Any, onnxruntime: Any, model: Any) -> dict[str, Any]:
    """Return arrays about those nodes of ``model`` that have one result, float32 and with elements.

    ``nodes``, ``operands``, ``results``: the names of each node, its first operand and its result.  A node
    without a name has the name of its result here.
    ``fingerprints``, float64[nodes, 5]: number, mean, mean square, minimum and maximum of the elements of the
    result on seeded inputs.  They do not depend on the order of elements.
    """
    # onnxruntime returns only outputs of the graph, so every result becomes an output
    traced = onnx.ModelProto()
    traced.CopyFrom(model)
    known = {item.name for item in traced.graph.output}
    nodes = [node for node in traced.graph.node if len(node.output) == 1]
    new = [node.output[0] for node in nodes if node.output[0] not in known]
    traced.graph.output.extend(onnx.ValueInfoProto(name=name) for name in new)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = traced.SerializeToString()
    run = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [item.name for item in run.get_outputs()]
    arrays = dict(zip(names, run.run(None, seeded_inputs(np, run))))  # noqa: B905  # equal lengths
    rows = [
        (node.name or node.output[0], next(iter(node.input), ""), node.output[0], arrays[node.output[0]])
        for node in nodes
        if getattr(arrays.get(node.output[0]), "dtype", None) == np.float32 and arrays[node.output[0]].size
    ]
    fingerprints = [
        [a.size, a.mean(dtype=np.float64), np.square(a, dtype=np.float64).mean(), a.min(), a.max()]
        for *_, a in rows
    ]
    return {
        **{
            key: np.array([row[n] for row in rows], str)
            for n, key in enumerate(("nodes", "operands", "results"))
        },
        "fingerprints": np.array(fingerprints, np.float64).reshape(-1, 5),
    }


def values_of(np: Any, onnxruntime: Any, path: str) -> dict[str, Any]:
    """Run the ONNX model in the file ``path`` on seeded inputs; return inputs, outputs and their names."""
    run = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = seeded_inputs(np, run)
    outputs = run.run(None, inputs)
    names = [[item.name for item in items] for items in (run.get_inputs(), run.get_outputs())]
    return {
        **{f"in{n}": array for n, array in enumerate(inputs.values())},
        **{f"out{n}": array for n, array in enumerate(outputs)},
        "inputs": np.array(names[0]),
        "outputs": np.array(names[1]),
    }


if __name__ == "__main__":
    sys.exit(main())
