# SPDX-License-Identifier: Apache-2.0
"""Float models with calibration and test samples: photographs for images, noise for the rest."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import circlekit as ck
from circlekit.ir.graph import Graph, Model, Signature
from circlekit.ir.value import Array
from tools.fuzz.seeds import SHARED

CACHE = Path(os.environ.get("CIRCLEKIT_BENCH", Path.home() / ".cache" / "circlekit_bench"))
COUNTS = {"calibration": 32, "test": 128}
"""{part: number of samples of each model}."""

NOT_FLOAT = "int8|int16|quant|kws|str_ww"
"""A pattern that matches a part of the name of each shared model without float weights."""

PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "retina", "immunohistochemistry")
TRAINED_ON = {"pretrainedResnet": (0, 255), "vww": (0, 1), "espcn": (0, 1), "face_landmark": (0, 1)}
"""The range of image values, by the beginning of a model's name; -1 to 1 for other models."""

Sample = list[Array]


def crop(rng: np.random.Generator, photos: Sequence[Array], height: int, width: int) -> Array:
    """Return a part of one of ``photos`` (uint8), dimmed, perhaps flipped: f32[1,height,width,3], 0 to 1."""
    photo = photos[int(rng.integers(len(photos)))]
    step = int(rng.integers(1, min(photo.shape[0] // height, photo.shape[1] // width, 4) + 1))
    top = int(rng.integers(photo.shape[0] - height * step + 1))
    left = int(rng.integers(photo.shape[1] - width * step + 1))
    part = photo[top : top + height * step : step, left : left + width * step : step] / np.float32(255)
    part = part[:, :: int(rng.choice([-1, 1]))] * rng.uniform(0.6, 1.0)
    return np.ascontiguousarray(part[None], np.float32)


def sample(name: str, graph: Graph, rng: np.random.Generator, photos: Sequence[Array]) -> Sample:
    """Return one array for each input of the graph: a photograph for images, noise for other float inputs.

    Other inputs get integers from 0 to 47.  ``name``: the name of the model, for the range of image values.
    """
    arrays: Sample = []
    low, high = next((span for start, span in TRAINED_ON.items() if name.startswith(start)), (-1, 1))
    for value in graph.inputs:
        shape = tuple(d or 1 for d in value.shape or ())
        is_nhwc = len(shape) == 4 and shape[3] in (1, 3)
        is_nchw = len(shape) == 4 and not is_nhwc and shape[1] == 3
        if value.dtype.numpy != np.float32:
            arrays.append(rng.integers(0, 48, shape).astype(value.dtype.numpy))
        elif (is_nhwc or is_nchw) and shape[2] > 4:
            image = low + (high - low) * crop(rng, photos, *(shape[2:] if is_nchw else shape[1:3]))
            image = image.mean(axis=3, keepdims=True) if shape[3] == 1 else image
            arrays.append(np.ascontiguousarray(image.transpose(0, 3, 1, 2) if is_nchw else image))
        else:
            arrays.append(rng.normal(0, 1, shape).astype(np.float32))
    return arrays


def shared_models() -> Iterator[tuple[str, bytes]]:
    """Yield (name, TFLite file) for each float model of the shared folder; O1 has run on circle models."""
    for path in sorted((SHARED / "models").glob("*/*")):
        if path.suffix in (".tflite", ".circle") and not re.search(NOT_FLOAT, path.name):
            name = path.stem.removesuffix(".f32").removesuffix("_float")
            name += "_tico" if path.suffix == ".circle" else ""
            yield name, saved(ck.load(path), optimize=path.suffix == ".circle")


def saved(model: Model, optimize: bool = False) -> bytes:
    """Return the TFLite file of a model; give the model a signature, which ai-edge-quantizer needs.

    ``optimize``: run O1; quantizers other than ours neither fuse nor take float16 constants.
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
    """Write shared models, and ``files`` after O1, to the cache, with samples; ``pattern`` selects names."""
    from skimage import data as images

    (CACHE / "models").mkdir(parents=True, exist_ok=True)
    photos = [getattr(images, name)() for name in PHOTOGRAPHS]
    given = ((path.stem, saved(ck.load(path), optimize=True)) for path in files)
    for name, data in (*shared_models(), *given):
        if not re.search(pattern, name):
            continue
        graph = ck.load(data).main
        arrays = {}
        for part, count in COUNTS.items():
            rng = np.random.default_rng([zlib.crc32(name.encode()), count])
            samples = [sample(name, graph, rng, photos) for _ in range(count)]
            for index in range(len(graph.inputs)):
                arrays[f"{part}_{index}"] = np.stack([s[index] for s in samples])
        (CACHE / "models" / f"{name}.tflite").write_bytes(data)
        np.savez(CACHE / "models" / f"{name}.npz", allow_pickle=False, **arrays)
        print(f"{name}: {len(data):,} bytes, {len(list(ck.load(data).ops()))} operators")


def samples_of(name: str, part: str) -> list[Sample]:
    """Return the samples of the model ``name``; ``part``: ``calibration`` or ``test``."""
    with np.load(CACHE / "models" / f"{name}.npz") as file:
        stacks: list[Any] = [file[f"{part}_{i}"] for i in range(sum(k.startswith(part) for k in file.files))]
    return [list(arrays) for arrays in zip(*stacks, strict=True)]
