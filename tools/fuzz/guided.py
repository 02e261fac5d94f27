# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing with atheris (``pip install '.[fuzz]'``): bytes that reach new code are kept.

python -m tools.fuzz.guided load|verify|infer|optimize|text|recipe FOLDER [-max_total_time=600 ...]

FOLDER keeps what was found, and is begun with small recipes; flags are libFuzzer's.  An exception that is no
CirclekitError ends the run, and leaves the input behind as ``crash-*``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.exit("atheris is not installed: pip install 'circlekit[fuzz]' (CPython up to 3.13, Linux)")

with atheris.instrument_imports(include=["circlekit"]):
    from circlekit.errors import CirclekitError
    from circlekit.io.read.load import load_bytes
    from circlekit.io.write.save import to_bytes
    from circlekit.ir.shape_inference import check_shapes, infer_shapes, settle_ranks
    from circlekit.ir.text import parse_model
    from circlekit.ir.verifier import check
    from circlekit.passes.engine.driver import run_passes
    from circlekit.passes.engine.registry import pass_names
    from circlekit.recipes.load import read_recipe
    from circlekit.rewrite.base import Context
    from tools.fuzz.seeds import all_seeds

SMALL = 4096
"""Bytes of the largest seed: short inputs are mutated more often where it matters."""


def load(data: bytes) -> None:
    """What loads can be written, and loads again."""
    model = load_bytes(data)
    load_bytes(to_bytes(model))


def verify(data: bytes) -> None:
    model = load_bytes(data)
    check(model)


def infer(data: bytes) -> None:
    model = load_bytes(data)
    check(model)
    check_shapes(model)
    infer_shapes(model)


def optimize(data: bytes) -> None:
    model = load_bytes(data)
    check(model)
    check_shapes(model)
    settle_ranks(model)
    run_passes(model, pass_names("O1", (), model.format), Context(model.format, exact=True))
    check(model)
    to_bytes(model)


def text(data: bytes) -> None:
    parse_model(data.decode("utf-8", "replace"))


def recipe(data: bytes) -> None:
    read_recipe(data.decode("utf-8", "replace"), "fuzz")


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (load, verify, infer, optimize, text, recipe)
}


def write_seeds(folder: Path, is_text: bool) -> None:
    """Fill ``folder`` with what to begin with, unless there is something in it."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        return
    seeds = all_seeds(None)
    files = [text.encode() for _, text in seeds.texts] if is_text else [seed.data for seed in seeds.files]
    for number, data in enumerate(files):
        if len(data) <= SMALL:
            (folder / f"seed-{number}").write_bytes(data)


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in TARGETS:
        sys.exit(__doc__)
    target, folder = TARGETS[sys.argv[1]], Path(sys.argv[2])
    write_seeds(folder, target in (text, recipe))

    def one(data: bytes) -> None:
        with warnings.catch_warnings(), suppress(CirclekitError):
            warnings.simplefilter("ignore")
            target(data)

    atheris.Setup([sys.argv[0], str(folder), "-rss_limit_mb=1024", "-timeout=5", *sys.argv[3:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
