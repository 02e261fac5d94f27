# SPDX-License-Identifier: Apache-2.0
"""What is mutated: the shared real models, and the project's and the peer's recipes, made into files."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterable, Sequence
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

LONGEST_TEXT = 6000
"""Characters of the longest recipe that is mutated as text: longer ones take long and teach nothing new."""

SMALL = 2000
"""Bytes of the largest model of the project's own that becomes a recipe in ONE's language."""

HEAVY = 100_000
"""Bytes from which on a model is drawn more rarely, so that the run is not spent on copying weights."""


@dataclass(frozen=True)
class Seed:
    """A model to start from.  ``weight``: how often it is drawn."""

    name: str
    data: bytes
    format: str
    weight: float


@dataclass
class Seeds:
    """Everything to start from: files by weight, and texts (name, text) of both recipe languages.

    ``recipes``: texts in ONE's language alone, its own and the small ones of ``files``.
    """

    files: list[Seed] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    recipes: list[tuple[str, str]] = field(default_factory=list)

    def file(self, rng: random.Random) -> Seed:
        return rng.choices(self.files, [seed.weight for seed in self.files])[0]

    def text(self, rng: random.Random) -> tuple[str, str]:
        return rng.choice(self.texts)


def all_seeds(shared: Path | None = SHARED) -> Seeds:
    """The seeds; those of ``shared`` are left out where there is no such folder."""
    seeds = Seeds()
    for name in ("nets", "ops", "passes"):
        _add_recipes(seeds, sorted((ROOT / "recipes" / name).glob("*.ck")), 8.0 if name == "nets" else 0.4)
    if shared is not None and shared.is_dir():
        _add_models(seeds, sorted(p for s in ("circle", "tflite") for p in shared.glob(f"models/*/*.{s}")))
        _add_recipes(seeds, sorted(shared.glob("peer/one/*/*/test.recipe")), 0.2)
    return seeds


def few_seeds(names: Iterable[str]) -> Seeds:
    """The project's own recipes with these names (``ops/add``), for short runs."""
    seeds = Seeds()
    _add_recipes(seeds, [ROOT / "recipes" / f"{name}.ck" for name in names], 1.0)
    return seeds


def _add_models(seeds: Seeds, paths: Sequence[Path]) -> None:
    for path in paths:
        data = path.read_bytes()
        seeds.files.append(Seed(path.name, data, path.suffix[1:], 2.0 if len(data) > HEAVY else 6.0))


def _add_recipes(seeds: Seeds, paths: Sequence[Path], weight: float) -> None:
    for path in paths:
        text = path.read_text()
        name = path.parent.name if path.suffix == ".recipe" else path.stem
        fmt = "tflite" if "TensorFlowLite" in str(path) else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                data = to_bytes(read_recipe(text, name, fmt))
                seeds.files.append(Seed(name, data, load_bytes(data).format, weight))
            except CirclekitError:  # it needs a file beside it, or is meant to be refused
                continue
        if path.suffix == ".recipe" or len(data) <= SMALL:
            _add_reversed(seeds, name, data)
        if len(text) <= LONGEST_TEXT:
            seeds.texts.append((path.name if path.suffix == ".ck" else name, text))


def _add_reversed(seeds: Seeds, name: str, data: bytes) -> None:
    """The model as ``test.recipe``, where that can say it."""
    with suppress(CirclekitError):
        fmt = load_bytes(data).format
        text = recipe_text(decode(memoryview(data), fmt), memoryview(data), fmt)
        if len(text) <= LONGEST_TEXT:
            seeds.recipes.append((f"{name}.recipe", text))
