# SPDX-License-Identifier: Apache-2.0
"""One case: made from its number alone, so that it can be made again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.fuzz.blind import mutate_bytes
from tools.fuzz.extremes import mutate_extremely
from tools.fuzz.hdf5 import make_hdf5, secret_files, sound_hdf5
from tools.fuzz.other_cases import Beside, make_list, make_npy, make_raw, make_rules, make_toml
from tools.fuzz.seeds import Seeds
from tools.fuzz.trees import mutate_model
from tools.fuzz.words import mutate_text

OTHER = ("hdf5", "toml", "recipe", "rule", "list", "raw", "npy")
"""Files that are no models, ``recipe`` (ONE's language alone) apart."""

KINDS = ("structured", "extreme", "blind", "text", *OTHER)


@dataclass(frozen=True)
class Job:
    """Which case: number ``number`` of a kind, of the run with ``seed``."""

    kind: str
    seed: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}:{self.number}"

    @staticmethod
    def parse(text: str) -> Job:
        kind, seed, number = text.split(":")
        if kind not in KINDS:
            raise ValueError(f"{kind} is none of {', '.join(KINDS)}")
        return Job(kind, int(seed), int(number))


@dataclass(frozen=True)
class Case:
    """``data``: the file, bytes or text.  ``done``: how it was made from ``origin``.

    ``beside``: other files (name, content) of its folder.  ``ending``: its suffix, "" where that follows
    from what it is.
    """

    data: bytes
    is_text: bool
    origin: str
    done: tuple[str, ...]
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
    """The case that is a file."""
    kinds = {".h5": "hdf5", ".toml": "toml", ".rule": "rule", ".lst": "list", ".tsv": "list"}
    kind = kinds.get(path.suffix, "")
    beside = tuple(_beside_hdf5().items()) if kind == "hdf5" else ()
    is_text = path.suffix in (".ck", ".recipe")
    return Case(path.read_bytes(), is_text, path.name, (), kind, beside, path.suffix if kind else "")


def make_case(job: Job, seeds: Seeds) -> Case:
    """The case of a job."""
    rng = random.Random(str(job))
    if job.kind in OTHER and job.kind != "recipe":
        return _other_case(job.kind, seeds, rng)
    if job.kind in ("text", "recipe"):
        name, text = seeds.text(rng) if job.kind == "text" else rng.choice(seeds.recipes)
        text, done = mutate_text(text, [seeds.text(rng)[1] for _ in range(2)], rng)
        return Case(text.encode("utf-8", "surrogatepass"), True, name, tuple(done))
    seed = seeds.file(rng)
    if job.kind == "blind":
        data, done = mutate_bytes(seed.data, seeds.file(rng).data, rng)
    elif job.kind == "extreme":
        data, done = mutate_extremely(seed.data, seed.format, rng)
    else:
        data, done = mutate_model(seed.data, seed.format, rng)
    return Case(data, False, seed.name, tuple(done))


def _other_case(kind: str, seeds: Seeds, rng: random.Random) -> Case:
    if kind == "hdf5":
        data, done = make_hdf5(rng)
        return Case(data, False, kind, tuple(done), kind, tuple(_beside_hdf5().items()), ".h5")
    if kind == "toml":
        data, done = make_toml(rng)
        return Case(data, False, kind, tuple(done), kind, ending=".toml")
    if kind == "rule":
        data, done = make_rules(rng)
        return Case(data, False, kind, tuple(done), kind, ending=".rule")
    if kind == "list":
        data, suffix, done = make_list(rng)
        beside = tuple((f"Net_00{number}.ck", seeds.text(rng)[1].encode()) for number in range(2))
        return Case(data, False, kind, tuple(done), kind, beside, suffix)
    if kind == "npy":
        data, done, beside = make_npy(rng)
        return Case(data, True, ".recipe", tuple(done), kind, beside)
    seed = seeds.file(rng)
    beside, done = make_raw(seed.data, rng)
    return Case(seed.data, False, seed.name, tuple(done), kind, beside)


@cache
def _beside_hdf5() -> Mapping[str, bytes]:
    """What must not be read, and a sound file to compare with."""
    return {**secret_files(), "good.h5": sound_hdf5()}
