# SPDX-License-Identifier: Apache-2.0
"""Print models with ``circledump --text``, parse the text, and compare both models, also after O1.

    python -m tools.roundtrip ../shared/models recipes ../shared/peer/one

Folders are searched for ``.circle``, ``.tflite``, ``.ck`` and ``.recipe`` files.  Before and after O1, both
models must be equal, the files that are written from them must hold equal models, and these files must have
the same bytes if the first model forgets how its own file was laid out.  The same passes must make the same
number of changes.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import circlekit
from circlekit.cli.command import INTERRUPTED
from circlekit.cli.dump import circledump
from circlekit.errors import CirclekitError
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Graph, Model
from circlekit.ir.model_equality import difference
from circlekit.ir.op import Op
from circlekit.ir.text.literal_printing import plain_items
from circlekit.ir.value import Value
from circlekit.passes.engine.legalize import legalize
from tools.sweep import sweep

SUFFIXES = (".circle", ".tflite", ".ck", ".recipe")


def find_models(places: Iterable[Path]) -> Iterator[Path]:
    """Yield the files among ``places``, and the models and recipes below the folders among them."""
    for place in places:
        if place.is_dir():
            yield from sorted(p for p in place.rglob("*") if p.suffix in SUFFIXES)
        else:
            yield place


def dumped(path: Path) -> str:
    """Return what ``circledump --text`` prints."""
    with redirect_stdout(io.StringIO()) as output:
        code = circledump(["--text", str(path)])
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise CirclekitError(f"circledump ended with exit code {code}")
    return output.getvalue()


def without_layout(model: Model) -> Model:
    """Return a copy that has forgotten how its file was laid out: indices of buffers, absent vectors..."""
    copy = clone(model)
    values = [value for graph in copy.graphs for value in graph.values()]
    things: list[Model | Graph | Op | Value] = [copy, *copy.graphs, *copy.ops(), *values]
    for thing in things:
        thing.extra = plain_items(thing.extra)
    return copy


def file_of(model: Model) -> bytes | str:
    """Return the bytes of the file; the message of the error if the model cannot be written."""
    try:
        return to_bytes(legalize(model, model.format))
    except CirclekitError as error:
        return error.message


def optimized(model: Model) -> str:
    """Run O1 on ``model``; return the passes with their numbers of changes, or the message of an error."""
    try:
        return str([(record.name, record.changes) for record in circlekit.optimize(model, "O1").passes])
    except CirclekitError as error:
        return error.message


def faults(path: Path) -> Iterator[str]:
    """Yield what is lost or changed by printing and parsing one model."""
    first = circlekit.load(path)
    second = circlekit.load(dumped(path).encode())
    yield from _differences(first, second, "")
    changes = [optimized(model) for model in (first, second)]
    if changes[0] != changes[1]:
        yield f"optimized differently: {changes[0]} and {changes[1]}"
    yield from _differences(first, second, "after O1: ")


def all_faults(path: Path) -> list[str]:
    """Return the ``faults`` of a model, or the error that ended the search for them."""
    try:
        return [*faults(path)]
    except CirclekitError as error:
        return [str(error)]


def _differences(first: Model, second: Model, prefix: str) -> Iterator[str]:
    found = difference(first, second)
    if found is not None:
        yield f"{prefix}{found}"
    files = [file_of(first), file_of(second)]
    if isinstance(files[0], bytes) and isinstance(files[1], bytes):
        found = difference(*(circlekit.load(file) for file in files if isinstance(file, bytes)))
        if found is not None:
            yield f"{prefix}in the files: {found}"
    if file_of(without_layout(first)) != files[1]:
        yield f"{prefix}the files differ in their bytes"


def main(argv: list[str] | None = None) -> int:
    """Check all models; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", nargs="+", type=Path, help="models, recipes, and folders of them")
    paths = [*find_models(parser.parse_args(argv).places)]
    checked, failed = 0, 0
    with sweep(len(paths), "models") as progress:
        for path, found in progress.each((path, all_faults(path)) for path in paths):
            checked += 1
            failed += bool(found)
            for fault in found:
                print(f"{path}: {fault}")
    print(f"{checked} models, {failed} changed by printing and parsing")
    return progress.exit_code(bool(failed) or not paths)


if __name__ == "__main__":
    sys.exit(main())
