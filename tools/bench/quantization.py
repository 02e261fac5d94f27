# SPDX-License-Identifier: Apache-2.0
"""Benchmark of quantizers: signal to quantization noise of each model's outputs, computed by LiteRT.

    python -m tools.bench.quantization models [FILE ...]
    python -m tools.bench.quantization int8 --by circlekit ai-edge tensorflow [--models REGEX]

``models`` makes 32 calibration and 128 test samples for each of the shared float models and of FILE ...; it
needs scikit-image.  Any other word is a scheme: the named programs quantize the models, and a table is
printed.  Models are kept in the folder CIRCLEKIT_BENCH (default ~/.cache/circlekit_bench).
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np

import circlekit as ck
from circlekit.equivalence.judgement.error_metrics import ErrorMetrics
from circlekit.equivalence.litert import run_steps
from circlekit.equivalence.real_numbers import real_numbers, stored_numbers
from circlekit.equivalence.sandbox import ProcessLost, run_forked
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from tools.bench.quantization_samples import CACHE, Sample, make_models, samples_of
from tools.bench.quantizers import QUANTIZERS
from tools.sweep import tool_parser

TIMEOUT_SECONDS = 900.0
CELL_CHARACTERS = 28


def outputs(data: bytes, steps: list[Sample]) -> list[Array]:
    """Return the outputs of the file ``data`` in LiteRT for the samples ``steps``, as real numbers.

    There is one array for each output; its first axis is the number of the sample.
    """
    graph = ck.load(data).main
    steps = [[stored_numbers(v, a) for a, v in zip(step, graph.inputs, strict=True)] for step in steps]
    results = run_steps(data, steps, Kernels.OPTIMIZED)
    return [real_numbers(v, np.stack([r[i] for r in results])) for i, v in enumerate(graph.outputs)]


def sqnr(reference: Array, actual: Array) -> float:
    """Return the signal to quantization noise ratio in dB; at most 200, and 200 if the reference is 0."""
    metrics = ErrorMetrics()
    metrics.add(reference, actual)
    return min(metrics.sqnr if metrics.sqnr is not None else 200.0, 200.0)


def measure(name: str, by: str, scheme: str) -> str:
    """Return the mean ``sqnr`` of the outputs, the size and the time, or the error, as text."""
    start = time.perf_counter()
    try:
        data = (CACHE / "models" / f"{name}.tflite").read_bytes()
        quantized = QUANTIZERS[by](data, scheme, samples_of(name, "calibration"))
        seconds = time.perf_counter() - start
        test = samples_of(name, "test")
        ratios = map(sqnr, outputs(data, test), outputs(quantized, test))
        return f"{np.mean(list(ratios)):.1f} dB {len(quantized):,} B {seconds:.0f} s"
    except Exception as error:  # any failure of a program that is measured is a result
        return f"{type(error).__name__}: {error}"


def measured(name: str, by: str, scheme: str) -> str:
    """Call ``measure`` in a process of its own: some programs crash on some models."""
    try:
        (text,) = run_forked(lambda: [measure(name, by, scheme)], TIMEOUT_SECONDS)
    except ProcessLost as lost:
        return f"crashed: {lost}"
    return text


def main() -> None:
    parser = tool_parser("bench.quantization", __doc__)
    parser.add_argument("scheme")
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="with the word models: more float models"
    )
    parser.add_argument("--by", nargs="+", choices=sorted(QUANTIZERS), default=["circlekit"])
    parser.add_argument("--models", default="")
    arguments = parser.parse_args()
    if arguments.scheme == "models":
        make_models(arguments.files, arguments.models)
        return
    print(f"{'model':18s}" + "".join(f"{by:>{CELL_CHARACTERS}s}" for by in arguments.by))
    for path in sorted((CACHE / "models").glob("*.tflite")):
        if re.search(arguments.models, path.stem):
            row = [measured(path.stem, by, arguments.scheme)[: CELL_CHARACTERS - 2] for by in arguments.by]
            print(f"{path.stem:18s}" + "".join(f"{c:>{CELL_CHARACTERS}s}" for c in row), flush=True)


if __name__ == "__main__":
    main()
