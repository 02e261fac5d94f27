# SPDX-License-Identifier: Apache-2.0
"""Check a property of model files, recipes and random graphs.

    python -m tools.models order --graphs 500 --seed 7      reorder_for_memory: peaks are never higher
    python -m tools.models text ../shared recipes           printing and parsing keep models and files equal

Folders are searched for ``.circle``, ``.tflite``, ``.ck`` and ``.recipe`` files.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import circlekit
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.errors import CirclekitError
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.testing import random_model
from tools.models import order, round_trip
from tools.sweep import sweep, tool_parser

SUFFIXES = (".circle", ".tflite", ".ck", ".recipe")
STEPS = (6, 10, 20, 40)
"""Numbers of steps that consecutive random graphs are made of."""

Property = Callable[[Model, Sequence[Array], Counter[str]], Iterator[str]]
"""A function of a model, inputs and counters; it yields what is wrong and counts what it examines."""

PROPERTIES: dict[str, Property] = {"order": order.findings, "text": round_trip.findings}


def find_models(places: Sequence[Path]) -> Iterator[Path]:
    """Yield the files among ``places``, and the models and recipes below the folders among them."""
    for place in places:
        if place.is_dir():
            yield from sorted(p for p in place.rglob("*") if p.suffix in SUFFIXES)
        else:
            yield place


def check(name: str, source: Path | int, counts: Counter[str]) -> list[str]:
    """Return what is wrong with a file or the random graph of a seed; or the error that ended the check."""
    try:
        if isinstance(source, int):
            return [*PROPERTIES[name](*random_model(source, steps=STEPS[source % 4]), counts)]
        model = circlekit.load(source)
        return [*PROPERTIES[name](model, make_inputs(model.main, InputSet("normal")), counts)]
    except CirclekitError as error:
        return [str(error)]


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is wrong, and counts; return 1 if anything is wrong, or there was nothing to check."""
    parser = tool_parser("models", __doc__)
    parser.add_argument("property", choices=PROPERTIES)
    parser.add_argument("places", nargs="*", type=Path, help="models, recipes, and folders of them")
    parser.add_argument("--graphs", type=int, default=0, help="number of random graphs")
    parser.add_argument("--seed", type=int, default=7, help="of the random graphs")
    asked = parser.parse_args(argv)
    first = asked.seed * 1_000_003
    sources = [*find_models(asked.places), *range(first, first + asked.graphs)]
    counts = Counter(models=0, wrong=0)
    with sweep(len(sources), "models") as line:
        for source in line.each(sources):
            found = check(asked.property, source, counts)
            counts.update(models=1, wrong=bool(found))
            for finding in found:
                print(f"{source}: {finding}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return line.exit_code(bool(counts["wrong"]) or not sources)


if __name__ == "__main__":
    sys.exit(main())
