# SPDX-License-Identifier: Apache-2.0
"""The files that are mutated: shared real models, and the recipes of circlekit and ONE as files."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.errors import CirclekitError
from circlekit.io.read.flatbuffer_decoder import decode
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.recipes.load import read_recipe
from circlekit.recipes.prototext.recipe_writer import recipe_text

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("CIRCLEKIT_SHARED", ROOT.parent / "shared"))

MAX_TEXT_CHARACTERS = 6000
"""Longer recipes are not mutated as text."""

MAX_RECIPE_BYTES = 2000
"""Larger models from circlekit's recipes are not turned into recipes of ONE."""

HEAVY_BYTES = 100_000
"""Larger shared models are drawn less often, since copying their weights takes time."""


@dataclass(frozen=True)
class Seed:
    """A model to start from.  ``weight``: how often it is drawn, in relation to the others."""

    name: str
    data: bytes
    format: str
    weight: float


@dataclass
class Seeds:
    """All seeds: files, and texts (name, text) in both recipe languages."""

    files: list[Seed] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)

    def file(self, rng: random.Random) -> Seed:
        return rng.choices(self.files, [seed.weight for seed in self.files])[0]

    def text(self, rng: random.Random) -> tuple[str, str]:
        return rng.choice(self.texts)


def all_seeds(shared: Path | None = SHARED) -> Seeds:
    """Return all seeds; without the folder ``shared``, only those in this repository."""
    seeds = Seeds()
    for name in ("nets", "ops", "passes"):
        _add_recipes(seeds, sorted((ROOT / "recipes" / name).glob("*.ck")), 8.0 if name == "nets" else 0.4)
    if shared is not None and shared.is_dir():
        for path in sorted(p for s in ("circle", "tflite") for p in shared.glob(f"models/*/*.{s}")):
            data = path.read_bytes()
            weight = 2.0 if len(data) > HEAVY_BYTES else 6.0
            seeds.files.append(Seed(path.name, data, path.suffix[1:], weight))
        _add_recipes(seeds, sorted(shared.glob("peer/one/*/*/test.recipe")), 0.2)
    return seeds


def _add_recipes(seeds: Seeds, paths: Sequence[Path], weight: float) -> None:
    """Add recipes as models with ``weight``, and as texts; some of the models also as recipes of ONE."""
    for path in paths:
        text = path.read_text()
        name = path.parent.name if path.suffix == ".recipe" else path.stem
        fmt = "tflite" if "TensorFlowLite" in str(path) else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                data = to_bytes(read_recipe(text, name, fmt))
                seeds.files.append(Seed(name, data, load_bytes(data).format, weight))
            except CirclekitError:  # the recipe needs another file, or tests a refusal
                continue
        if path.suffix == ".recipe" or len(data) <= MAX_RECIPE_BYTES:
            _add_reversed(seeds, name, data)
        if len(text) <= MAX_TEXT_CHARACTERS:
            seeds.texts.append((path.name if path.suffix == ".ck" else name, text))


def _add_reversed(seeds: Seeds, name: str, data: bytes) -> None:
    """Add the model as a recipe in ONE's language, if this language can express it."""
    with suppress(CirclekitError):
        fmt = load_bytes(data).format
        text = recipe_text(decode(memoryview(data), fmt), memoryview(data), fmt)
        if len(text) <= MAX_TEXT_CHARACTERS:
            seeds.texts.append((f"{name}.recipe", text))
