# SPDX-License-Identifier: Apache-2.0
"""Make the output of ``circlekit run``: inputs, outputs and times, as text or as a JSON document."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from circlekit.cli.output.terminal import text_columns
from circlekit.cli.result import source_name
from circlekit.errors import counted
from circlekit.interp.timing import Timing
from circlekit.ir.graph import Graph
from circlekit.ir.text.columns import abridged, format_columns
from circlekit.ir.value import Array, Value, format_shape

WHOLE_ELEMENTS = 64
"""An output with at most this many elements is printed as a whole."""

FIRST_ELEMENTS = 5
"""Of a larger output, only this many elements are printed."""

JSON_SCHEMA = 1
"""The version of the JSON document (docs/guide/data.md); a change that breaks readers increases it."""

MAX_PRINTED_RECORDS, MAX_PRINTED_OPERATORS = 4, 25
"""At most this many records are printed with their outputs, and this many operators with their times."""

MARGIN = "    "
"""The indentation of the lines with the contents of an array."""


@dataclass
class Entry:
    """The entry point of a run: a ``graph``, its ``index`` in the model, and the names of its ``outputs``."""

    graph: Graph
    index: int
    outputs: list[str]


@dataclass
class Finished:
    """The finished runs of a graph, and their results.

    ``records`` and ``outputs``: the input arrays and the output arrays of each run, by the label of the
    record.  ``timing``: None if no flag asked for it.
    """

    arguments: argparse.Namespace
    entry: Entry
    records: Mapping[str, Sequence[Array]]
    outputs: Mapping[str, Sequence[Array]]
    timing: Timing | None = None


def run_lines(run: Finished) -> Iterator[str]:
    """Yield the lines to print: the inputs of the first record, the outputs, and the times."""
    arguments, entry, records, outputs = run.arguments, run.entry, run.records, run.outputs
    yield f"{source_name(arguments.model)}, graph {entry.graph.name}"
    yield f"inputs: {_origin(arguments, entry.graph, records)}"
    for value, array in zip(entry.graph.inputs, next(iter(records.values())), strict=True):
        yield f"  {_typed(value.name, array)}"
    for label, arrays in list(outputs.items())[:MAX_PRINTED_RECORDS]:
        yield "outputs:" if len(outputs) == 1 else f"outputs of {label}:"
        for name, array in zip(entry.outputs, arrays, strict=True):
            yield f"  {_typed(name, array)}"
            yield from (f"{MARGIN}{line}" for line in _content(array))
    if len(outputs) > MAX_PRINTED_RECORDS:
        rest = len(outputs) - MAX_PRINTED_RECORDS
        yield f"... and {counted(rest, 'more record')}; -o saves all outputs, --json prints all records"
    if run.timing is not None:
        yield from _timing_lines(run.timing)
    if arguments.output is not None:
        yield f"wrote {arguments.output}"


def _origin(arguments: argparse.Namespace, graph: Graph, records: Mapping[str, Sequence[Array]]) -> str:
    """Return the text on the origin of the inputs, such as "random, seed 0"."""
    if arguments.inputs is not None:
        return f"{arguments.inputs}, {counted(len(records), 'record')}"
    (arrays,) = records.values()
    shapes = ((v.shape or (), array.shape) for v, array in zip(graph.inputs, arrays, strict=True))
    unknown = sorted(
        {size for dims, sizes in shapes for dim, size in zip(dims, sizes, strict=True) if dim is None}
    )
    sizes = f", unknown dimensions are {' or '.join(map(str, unknown))}" if unknown else ""
    return f"random, seed {arguments.seed or 0}{sizes} (--inputs DATA runs on your own inputs)"


def _typed(name: str, array: Array) -> str:
    return f"%{name}: {array.dtype}{format_shape(array.shape)}"


def _content(array: Array) -> Iterator[str]:
    """Yield lines with min, mean, max and elements of ``array``; of a large array only the first elements."""
    facts = _facts(array)
    if facts:
        yield ", ".join(f"{name} {_number(value)}" for name, value in facts.items())
    if array.size <= WHOLE_ELEMENTS:
        width = text_columns() - len(MARGIN)
        yield from np.array2string(array, max_line_width=width, precision=6).splitlines()
    else:
        first = ", ".join(_number(x) for x in array.reshape(-1)[:FIRST_ELEMENTS].tolist())
        yield f"first elements {first}, ..."


def _facts(array: Array) -> dict[str, float]:
    """Return min, mean and max of the finite elements, and how many elements are NaN or infinite, by name.

    Counts of 0 are left out.  Return {} for an array without elements, or with a dtype other than bool,
    integers and floats.
    """
    if array.dtype.kind not in "fiub" or not array.size:
        return {}
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    facts: dict[str, float] = {}
    if finite.size:
        low, high = array[np.isfinite(wide)].min(), array[np.isfinite(wide)].max()
        with np.errstate(over="ignore", invalid="ignore"):
            mean = finite.mean()
            if not np.isfinite(mean):  # the sum, or a part of it, overflowed
                mean = np.clip((finite / finite.size).sum(), low, high)
        facts = {"min": low.item(), "mean": float(mean), "max": high.item()}
    counts = {"NaN": int(np.isnan(wide).sum()), "infinite": int(np.isinf(wide).sum())}
    return facts | {name: number for name, number in counts.items() if number}


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _timing_lines(timing: Timing) -> Iterator[str]:
    """Yield a line with the times of the runs and, if operators were timed, a table of them."""
    runs = [1000 * seconds for seconds in timing.runs]
    yield (
        f"time: median {1000 * timing.median:.3f} ms, min {min(runs):.3f}, max {max(runs):.3f}"
        f" ({counted(len(runs), 'run')} of circlekit's interpreter after a warm-up)"
    )
    if not timing.ops:
        return
    total = sum(timed.seconds for timed in timing.ops) or 1.0  # not 0, because shares are divided by it
    shown = timing.ops[:MAX_PRINTED_OPERATORS]
    numbers = [("ms", "%", "MACs")]
    for timed in shown:
        share = f"{100 * timed.seconds / total:.1f}"
        numbers.append((f"{1000 * timed.seconds:.3f}", share, f"{timed.op.macs():,}"))
    width = max(len(timed.op.code) for timed in shown)
    names = ["operator", *(f"{timed.op.code:{width}}  {_result(timed.op.results)}" for timed in shown)]
    yield "operators, longest first:"
    for columns, name in zip(format_columns(numbers, left=0).splitlines(), names, strict=True):
        name_width = text_columns() - len(columns) - 4  # 4: the spaces before and after ``columns``
        yield f"  {columns}  {abridged(name, name_width)}".rstrip()
    rest = timing.ops[MAX_PRINTED_OPERATORS:]
    if rest:
        remaining = 100 * sum(timed.seconds for timed in rest) / total
        yield f"  ... and {counted(len(rest), 'more operator')} with {remaining:.1f} %; --json prints all"


def _result(results: Sequence[Value]) -> str:
    return f"%{results[0].name}" if results else ""


def run_document(run: Finished) -> dict[str, Any]:
    """Return the document that ``--json`` prints; docs/guide/data.md describes the keys."""
    arguments, entry, timing = run.arguments, run.entry, run.timing
    input_names = [value.name for value in entry.graph.inputs]
    document: dict[str, Any] = {
        "schema": JSON_SCHEMA,
        "model": arguments.model,
        "graph": entry.graph.name,
        "inputs": arguments.inputs or {"random": True, "seed": arguments.seed or 0},
        "records": [
            {
                "name": label,
                "inputs": [_array_document(*pair) for pair in zip(input_names, arrays, strict=True)],
                "outputs": [_array_document(*p) for p in zip(entry.outputs, run.outputs[label], strict=True)],
            }
            for label, arrays in run.records.items()
        ],
        "output_file": arguments.output,
    }
    if timing is not None:
        runs = [1000 * seconds for seconds in timing.runs]
        document["milliseconds"] = {
            "median": 1000 * timing.median, "min": min(runs), "max": max(runs), "runs": len(runs)
        }  # fmt: skip
        document["operators"] = [
            {
                "name": timed.op.results[0].name if timed.op.results else "",
                "kind": timed.op.code,
                "milliseconds": 1000 * timed.seconds,
                "macs": timed.op.macs(),
            }
            for timed in timing.ops
        ]
    return document


def _array_document(name: str, array: Array) -> dict[str, Any]:
    """Return an array for the document: all elements, or only the first ones of a large array."""
    elements = array.reshape(-1)
    is_whole = array.size <= WHOLE_ELEMENTS
    shown = array.tolist() if is_whole else elements[:FIRST_ELEMENTS].tolist()
    return {
        "name": name,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        **_facts(array),
        "elements" if is_whole else "first_elements": _json_value(shown),
    }


def _json_value(value: Any) -> Any:
    """Return ``value`` as JSON types; NaN, infinities, complex numbers and bytes become strings."""
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    is_plain = isinstance(value, int | str) or (isinstance(value, float) and np.isfinite(value))
    return value if is_plain else str(value)
