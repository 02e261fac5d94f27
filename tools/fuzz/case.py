# SPDX-License-Identifier: Apache-2.0
"""One case of fuzzing, made from its kind, seed and number alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from tools.fuzz.make_file import Beside, make_list, make_rules, make_toml, valid_hdf5
from tools.fuzz.mutate_bytes import mutate_bytes
from tools.fuzz.mutate_model import mutate_model
from tools.fuzz.mutate_text import mutate_text
from tools.fuzz.seeds import Seeds

KINDS = (
    "structured", "blind", "text", "hdf5", "toml", "recipe", "rule", "list",
)  # fmt: skip
"""The first three mutate models and recipes; the others make one kind of file (recipe: in ONE's language)."""

KIND_OF_SUFFIX = {".h5": "hdf5", ".toml": "toml", ".rule": "rule", ".lst": "list", ".tsv": "list"}


@dataclass(frozen=True)
class Job:
    """Case ``number`` of a kind, in the run with ``seed``."""

    kind: str
    seed: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}:{self.number}"

    @staticmethod
    def parse(text: str) -> Job:
        """Return the job that is printed as ``text``; ValueError for an unknown kind."""
        kind, seed, number = text.split(":")
        if kind not in KINDS:
            raise ValueError(f"expected one of {', '.join(KINDS)}, got {kind}")
        return Job(kind, int(seed), int(number))


@dataclass(frozen=True)
class Case:
    """A file to run.  ``done``: how it was made from ``origin``; ``beside``: other files in its folder.

    ``kind`` and ``ending`` (a suffix) are empty where they follow from the content.
    """

    data: bytes
    is_text: bool
    origin: str
    done: tuple[str, ...] = ()
    kind: str = ""
    beside: Beside = ()
    ending: str = ""

    @property
    def suffix(self) -> str:
        if self.ending:
            return self.ending
        if self.is_text:
            return ".ck" if self.origin.endswith(".ck") else ".recipe"
        return ".circle" if self.data[4:8] == b"CIR0" else ".tflite"


def case_of(path: Path) -> Case:
    """Return the case that consists of a file."""
    kind = KIND_OF_SUFFIX.get(path.suffix, "")
    is_text = path.suffix in (".ck", ".recipe")
    beside = (("good.h5", valid_hdf5()),) if kind == "hdf5" else ()
    return Case(path.read_bytes(), is_text, path.name, (), kind, beside, path.suffix if kind else "")


def make_case(job: Job, seeds: Seeds) -> Case:
    """Return the case of a job; the same job gives the same case."""
    rng, kind = random.Random(str(job)), job.kind
    if kind in ("text", "recipe"):
        name, text = seeds.text(rng) if kind == "text" else rng.choice(seeds.recipes)
        text, done = mutate_text(text, [seeds.text(rng)[1] for _ in range(2)], rng)
        return Case(text.encode("utf-8", "surrogatepass"), True, name, tuple(done))
    if kind == "hdf5":
        good = valid_hdf5()
        data, done = mutate_bytes(good, good[::-1], rng)
        return Case(data, False, kind, tuple(done), kind, (("good.h5", good),), ".h5")
    if kind in ("toml", "rule"):
        data, done = make_toml(rng) if kind == "toml" else make_rules(rng)
        return Case(data, False, kind, tuple(done), kind, ending=f".{kind}")
    if kind == "list":
        data, suffix, done = make_list(rng)
        beside = tuple((f"Net_00{number}.ck", seeds.text(rng)[1].encode()) for number in range(2))
        return Case(data, False, kind, tuple(done), kind, beside, suffix)
    seed = seeds.file(rng)
    if kind == "blind":
        data, done = mutate_bytes(seed.data, seeds.file(rng).data, rng)
    else:
        data, done = mutate_model(seed.data, seed.format, rng)
    return Case(data, False, seed.name, tuple(done))
