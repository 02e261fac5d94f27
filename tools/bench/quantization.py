# SPDX-License-Identifier: Apache-2.0
"""Benchmark of quantizers: signal to quantization noise of each model's outputs, computed by LiteRT.

    python -m tools.bench.quantization models [FILE ...]
    python -m tools.bench.quantization int8 --by circlekit ai-edge tensorflow [--models REGEX] [--again]

``models`` makes 32 calibration and 128 test samples for each of the shared float models and of FILE ...; it
needs scikit-image.  The other form quantizes them by the named programs and prints a table.  Models and
results are kept in the folder CIRCLEKIT_BENCH (default ~/.cache/circlekit_bench).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import circlekit as ck
from circlekit.equivalence.litert import run_steps
from circlekit.equivalence.real_numbers import real_numbers, stored_numbers
from circlekit.equivalence.sandbox import ProcessLost, run_forked
from circlekit.ir.graph import Model, Signature
from circlekit.ops.numerics.output_stage import Kernels

Array = NDArray[Any]
Sample = list[Array]
Quantizer = Callable[[bytes, str, list[Sample]], bytes]
"""From a float model, a scheme and calibration samples to a quantized model."""

CACHE = Path(os.environ.get("CIRCLEKIT_BENCH", Path.home() / ".cache" / "circlekit_bench"))
SHARED = Path(os.environ.get("CIRCLEKIT_SHARED", Path(__file__).parents[2] / ".." / "shared")) / "models"
CALIBRATION, TEST = 32, 128
TIMEOUT_SECONDS = 900.0


# -- samples -----------------------------------------------------------------------------------


def photographs() -> list[Array]:
    """Return scikit-image's photographs, u8[H,W,3]."""
    from skimage import data

    return [
        getattr(data, name)()
        for name in ("astronaut", "chelsea", "coffee", "rocket", "retina", "immunohistochemistry")
    ]


def crop(rng: np.random.Generator, photos: Sequence[Array], height: int, width: int) -> Array:
    """Return a random crop, flip and contrast of a photograph, f32[1,height,width,3] from 0 to 1."""
    photo = photos[int(rng.integers(len(photos)))]
    step = int(rng.integers(1, min(photo.shape[0] // height, photo.shape[1] // width, 4) + 1))
    top = int(rng.integers(photo.shape[0] - height * step + 1))
    left = int(rng.integers(photo.shape[1] - width * step + 1))
    part = photo[top : top + height * step : step, left : left + width * step : step] / np.float32(255)
    part = part[:, :: int(rng.choice([-1, 1]))] * rng.uniform(0.6, 1.0)
    return np.ascontiguousarray(part[None], np.float32)


def sound(rng: np.random.Generator, length: int) -> Array:
    """Return a few decaying notes with harmonics and noise, f32[1,length,1]."""
    seconds = np.arange(length) / 22050
    out = rng.normal(0, 0.002, length)
    for _ in range(int(rng.integers(1, 6))):
        pitch, start = 440 * 2 ** (rng.integers(-30, 30) / 12), rng.uniform(0, 1.6)
        age = np.maximum(seconds - start, 0)
        envelope = (seconds >= start) * np.exp(-age * rng.uniform(1, 6)) * rng.uniform(0.05, 0.3)
        out += sum(envelope / k**1.5 * np.sin(2 * np.pi * pitch * k * age) for k in range(1, 6))
    return np.ascontiguousarray(out.reshape(1, length, 1), np.float32)


def sample(name: str, graph: Any, rng: np.random.Generator, photos: Sequence[Array]) -> Sample:
    """Return one input for each input of the graph: photographs for images, notes for nmp, else noise."""
    arrays = []
    for value in graph.inputs:
        shape = tuple(d or 1 for d in value.shape)
        if value.dtype.numpy != np.float32:
            arrays.append(rng.integers(0, 48, shape).astype(value.dtype.numpy))
        elif name == "nmp":
            arrays.append(sound(rng, shape[1]))
        elif len(shape) == 4 and (shape[3] in (1, 3) or (shape[1] == 3 and shape[2] > 4)) and shape[2] > 4:
            nchw = shape[3] not in (1, 3)
            image = crop(rng, photos, *(shape[2:] if nchw else shape[1:3]))
            if name == "pretrainedResnet":
                image *= 255  # trained on bytes
            elif not name.startswith(("vww", "espcn", "face_landmark")):
                image = image * 2 - 1
            image = image.mean(axis=3, keepdims=True) if shape[3] == 1 else image
            arrays.append(np.ascontiguousarray(image.transpose(0, 3, 1, 2) if nchw else image))
        else:
            arrays.append(rng.normal(0, 1, shape).astype(np.float32))
    return arrays


# -- models ------------------------------------------------------------------------------------


def shared_models() -> Iterator[tuple[str, bytes]]:
    for path in sorted(SHARED.glob("*/*")):
        if path.suffix in (".tflite", ".circle") and not re.search("int8|int16|quant|kws|str_ww", path.name):
            name = path.stem.removesuffix(".f32").removesuffix("_float")
            name += "_tico" if path.suffix == ".circle" else ""
            model = ck.load(path)
            yield name, saved(model, optimize=path.suffix == ".circle")


def saved(model: Model, optimize: bool = False) -> bytes:
    """Return the TFLite file of a model, with a signature, which ai-edge-quantizer needs.

    ``optimize``: run O1; the other quantizers neither fuse nor take float16 constants.
    """
    if optimize:
        ck.optimize(model, "O1", target="litert")
    graph = model.main
    if not model.signatures:
        named = ({v.name: v for v in side} for side in (graph.inputs, graph.outputs))
        model.signatures = [Signature("serving_default", graph, *named)]
    path = CACHE / "saved.tflite"
    ck.save(model, path)
    return path.read_bytes()


def make_models(files: Sequence[Path], pattern: str) -> None:
    """Write the shared models, and ``files`` after O1, with samples for each."""
    (CACHE / "models").mkdir(parents=True, exist_ok=True)
    photos = photographs()
    given = ((path.stem, saved(ck.load(path), optimize=True)) for path in files)
    for name, data in (*shared_models(), *given):
        if not re.search(pattern, name):
            continue
        graph = ck.load(data).main
        arrays = {}
        for part, count in (("calibration", CALIBRATION), ("test", TEST)):
            rng = np.random.default_rng([zlib.crc32(name.encode()), count])
            samples = [sample(name, graph, rng, photos) for _ in range(count)]
            for index in range(len(graph.inputs)):
                arrays[f"{part}_{index}"] = np.stack([s[index] for s in samples])
        (CACHE / "models" / f"{name}.tflite").write_bytes(data)
        np.savez(CACHE / "models" / f"{name}.npz", allow_pickle=False, **arrays)
        print(f"{name}: {len(data):,} bytes, {len(list(ck.load(data).ops()))} operators")


def samples_of(name: str, part: str) -> list[Sample]:
    """Return the samples ``calibration`` or ``test`` of a model."""
    with np.load(CACHE / "models" / f"{name}.npz") as file:
        stacks = [file[f"{part}_{i}"] for i in range(sum(k.startswith(part) for k in file.files))]
    return [list(arrays) for arrays in zip(*stacks, strict=True)]


# -- quantizers: (float model, scheme, calibration samples) -> quantized model ------------------


def by_circlekit(data: bytes, scheme: str, samples: list[Sample], **options: Any) -> bytes:
    model = ck.load(data)
    print(ck.quantize(model, scheme, samples=samples, **options))
    return saved(model)


def by_circlekit_plain(data: bytes, scheme: str, samples: list[Sample]) -> bytes:
    return by_circlekit(data, scheme, samples, auto=False)


def by_tensorflow(data: bytes, scheme: str, samples: list[Sample]) -> bytes:
    """Quantize a TFLite file as TensorFlow's converter quantizes the one that it has made."""
    import tensorflow as tf
    from tensorflow.lite.python import convert
    from tensorflow.lite.python.optimize import calibrator

    steps = calibrator.Calibrator(calibrator.add_intermediate_tensors(data))
    if scheme == "int8":
        calibrated = steps.calibrate(lambda: iter(samples))
        return bytes(
            convert.mlir_quantize(calibrated, input_data_type=tf.float32, output_data_type=tf.float32)
        )
    f32 = tf.float32  # as TFLiteConverter does: its newer quantizer has no int16
    return bytes(steps.calibrate_and_quantize(lambda: iter(samples), f32, f32, True, tf.int16, tf.int64))


def by_ai_edge(algorithm: str) -> Quantizer:
    """Return a function that quantizes with ai-edge-quantizer and one of its algorithms."""

    def quantize(data: bytes, scheme: str, samples: list[Sample]) -> bytes:
        from ai_edge_quantizer import quantizer

        path = CACHE / "ai_edge.tflite"
        path.write_bytes(data)
        work = quantizer.Quantizer(str(path), ai_edge_recipe(scheme, algorithm))
        result = None
        if work.need_calibration:
            (signature,) = ck.load(data).signatures
            named = [dict(zip(signature.inputs, s, strict=True)) for s in samples]
            result = work.calibrate({signature.key: named})
        return bytes(work.quantize(result).quantized_model)

    return quantize


def ai_edge_recipe(scheme: str, algorithm: str) -> Any:
    """Return ai-edge-quantizer's recipe of a scheme."""
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    every = qtyping.TFLOperationName.ALL_SUPPORTED
    if scheme in ("int8", "int16x8"):
        bits = 8 if scheme == "int8" else 16
        manager.add_static_config(".*", every, bits, 8, algorithm_key=algorithm)
    else:
        _, bits_name, *block = scheme.split("_")
        size = qtyping.QuantGranularity("BLOCKWISE_" + block[0][5:] if block else "CHANNELWISE")
        add = manager.add_dynamic_config if scheme.startswith("dynamic") else manager.add_weight_only_config
        add(".*", every, int(bits_name[3:]), size, algorithm_key=algorithm)
    return manager.get_quantization_recipe()


QUANTIZERS: dict[str, Quantizer] = {
    "circlekit": by_circlekit,
    "circlekit-plain": by_circlekit_plain,
    "ai-edge": by_ai_edge("min_max_uniform_quantize"),
    "ai-edge-octav": by_ai_edge("OCTAV"),
    "ai-edge-mse": by_ai_edge("MSE"),
    "ai-edge-gptq": by_ai_edge("GPTQ"),
    "tensorflow": by_tensorflow,
}


# -- measurement -------------------------------------------------------------------------------


def outputs(data: bytes, steps: list[Sample]) -> list[Array]:
    """Return LiteRT's outputs as real numbers, one array for each output with the samples stacked."""
    graph = ck.load(data).main
    steps = [[stored_numbers(v, a) for a, v in zip(step, graph.inputs, strict=True)] for step in steps]
    results = run_steps(data, steps, Kernels.OPTIMIZED)
    return [real_numbers(v, np.stack([r[i] for r in results])) for i, v in enumerate(graph.outputs)]


def sqnr(reference: Array, actual: Array) -> float:
    """Return 10 log10(signal power / noise power) in dB, at most 200."""
    signal, noise = np.square(reference).sum(), np.square(reference - actual).sum()
    if not np.isfinite(noise):
        return -200.0
    return float(np.clip(10 * np.log10(max(signal, 1e-30) / max(noise, 1e-50)), -200, 200))


def measured(name: str, by: str, scheme: str, again: bool) -> dict[str, Any]:
    """Quantize and measure a model, or return the result of an earlier run."""
    kept = CACHE / by / scheme / f"{name}.json"
    if kept.exists() and not again:
        result: dict[str, Any] = json.loads(kept.read_text())
        return result
    kept.parent.mkdir(parents=True, exist_ok=True)
    data = (CACHE / "models" / f"{name}.tflite").read_bytes()
    try:
        (result,) = run_forked(lambda: [measure(name, data, by, scheme, kept)], TIMEOUT_SECONDS)
    except ProcessLost as lost:  # some programs crash on some models
        result = {"error": f"crashed: {lost}"}
    kept.write_text(json.dumps(result))
    return result


def measure(name: str, data: bytes, by: str, scheme: str, kept: Path) -> dict[str, Any]:
    """Return the ratio in dB for each output, the size and the time; or the error."""
    start = time.perf_counter()
    try:
        quantized = QUANTIZERS[by](data, scheme, samples_of(name, "calibration"))
        seconds = time.perf_counter() - start
        kept.with_suffix(".tflite").write_bytes(quantized)
        test = samples_of(name, "test")
        pairs = zip(outputs(data, test), outputs(quantized, test), strict=True)
        return {"sqnr": [sqnr(a, b) for a, b in pairs], "bytes": len(quantized), "seconds": seconds}
    except Exception as error:  # any failure of a program that is measured is a result
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scheme")
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="with the word models: further ones"
    )
    parser.add_argument("--by", nargs="+", choices=sorted(QUANTIZERS), default=["circlekit"])
    parser.add_argument("--models", default="")
    parser.add_argument("--again", action="store_true", help="measure again what was measured")
    arguments = parser.parse_args()
    if arguments.scheme == "models":
        make_models(arguments.files, arguments.models)
        return
    print(f"{'model':18s}" + "".join(f"{by:>28s}" for by in arguments.by))
    for path in sorted((CACHE / "models").glob("*.tflite")):
        if re.search(arguments.models, path.stem):
            row = [measured(path.stem, by, arguments.scheme, arguments.again) for by in arguments.by]
            print(f"{path.stem:18s}" + "".join(f"{cell(result):>28s}" for result in row), flush=True)


def cell(result: dict[str, Any]) -> str:
    if "error" in result:
        return str(result["error"])[:26]
    return f"{np.mean(result['sqnr']):.1f} dB {result['bytes']:,} B {result['seconds']:.0f} s"


if __name__ == "__main__":
    main()
