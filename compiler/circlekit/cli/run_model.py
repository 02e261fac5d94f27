# SPDX-License-Identifier: Apache-2.0
"""circlekit run: run a model on given or random inputs; print its outputs, and the time that it takes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from circlekit.api.models import load
from circlekit.cli.arguments import (
    MODEL_HELP,
    Parser,
    add_inputs,
    count,
    output_path,
    positive_count,
    refusing,
)
from circlekit.cli.command import Command
from circlekit.cli.output.json_text import json_text
from circlekit.cli.output.run_results import Entry, Finished, run_document, run_lines
from circlekit.cli.result import source_of
from circlekit.equivalence.data_files.input_files import read_records
from circlekit.equivalence.data_files.output_files import check_output, check_output_extension, write_outputs
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.equivalence.unknown_sizes import sizes_that_run
from circlekit.errors import CirclekitError, ModelError, UnsupportedError, did_you_mean
from circlekit.interp.interpreter import Interpreter, expect_runs
from circlekit.interp.timing import time_runs
from circlekit.ir.graph import Model
from circlekit.ir.resources.progress import progress
from circlekit.ir.value import Array

DESCRIPTION = """Run a model with circlekit's interpreter; print its outputs.

DATA is an npz or HDF5 file with arrays named as the inputs, or in0, in1...; an npy file for a model with
one input; a raw file with the elements of all inputs; or a folder with a file for each record, or with a file
named after each input. A record is one array for each input. Arrays in npz and npy files that have one axis
more than the inputs hold several records."""


def _declare(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    add_inputs(parser, "run on the inputs")
    parser.add_switch("--random", help="run on seeded random inputs, which is the default without --inputs")
    parser.add_argument("--seed", type=count, metavar="N", help="seed of random inputs (default: 0)")
    parser.add_argument(
        "-o",
        "--output",
        type=output_path,
        metavar="PATH",
        help="save the outputs to an .npz, .npy or .h5 file, or to a folder of raw files; refused if files of"
        " another run would stay there",
    )
    parser.add_argument(
        "--signature", metavar="NAME", help="run the graph of this signature, and use its names of outputs"
    )
    parser.add_argument("--graph", metavar="NAME", help="run this graph instead of the main one")
    parser.add_argument(
        "--repeat", type=positive_count, metavar="N", help="measure the time of N runs, after one to warm up"
    )
    parser.add_switch("--per-op", help="measure the time of each operator")
    parser.add_switch("--json", help="print one JSON document")
    parser.add_switch("-q", "--quiet", help="print nothing but errors")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.inputs is not None and (arguments.random or arguments.seed is not None):
        arguments.refuse("--inputs and random inputs (--random, --seed) exclude each other")
    if arguments.signature is not None and arguments.graph is not None:
        arguments.refuse("--signature and --graph exclude each other")
    if arguments.output is not None:
        with refusing(arguments):
            check_output_extension(arguments.output)
    model = load(source_of(arguments.model))
    entry = _entry(model, arguments.signature, arguments.graph)
    if arguments.output is not None:
        check_output(arguments.output, len(entry.outputs))
    records = _records(model, entry, arguments)
    if arguments.output is not None:
        check_output(arguments.output, len(entry.outputs), list(records))
    progress().begin("running the model")
    expect_runs(model, len(records), entry.index)
    interpreter = Interpreter(model)
    outputs = {label: _outputs(interpreter, entry, label, arrays) for label, arrays in records.items()}
    timing = None
    if arguments.repeat or arguments.per_op:
        first = next(iter(records.values()))
        progress().begin("measuring")
        expect_runs(model, (arguments.repeat or 1) + 1, entry.index)  # one more, to warm up
        timing = time_runs(interpreter, first, entry.index, arguments.repeat or 1, arguments.per_op)
    if arguments.output is not None:
        write_outputs(arguments.output, entry.outputs, outputs)
    finished = Finished(arguments, entry, records, outputs, timing)
    if arguments.json and not arguments.quiet:
        print(json_text(run_document(finished), allow_nan=False))
    elif not arguments.quiet:
        print(*run_lines(finished), sep="\n")
    return 0


run_command = Command("circlekit run", DESCRIPTION, "model", _declare, _run)


def _entry(model: Model, signature: str | None, graph: str | None) -> Entry:
    """Return the graph to run: that of a signature, that with a given name, or else the main graph.

    ``signature``, ``graph``: the name, if any.  Raise ModelError if the model has no such signature or graph.
    """
    chosen, names = model.main, [value.name for value in model.main.outputs]
    if signature is not None:
        # the first of equal keys wins, as in LiteRT
        signatures = {item.key: item for item in reversed(model.signatures)}
        if signature not in signatures:
            raise ModelError(_unknown("signature", signature, [*reversed(signatures)]))
        chosen = signatures[signature].graph
        aliases = {id(value): name for name, value in signatures[signature].outputs.items()}
        names = [aliases.get(id(value), value.name) for value in chosen.outputs]
    elif graph is not None:
        graphs = {item.name: item for item in reversed(model.graphs)}  # the first of equal names wins
        if graph not in graphs:
            raise ModelError(_unknown("graph", graph, [*reversed(graphs)]))
        chosen = graphs[graph]
        names = [value.name for value in chosen.outputs]
    index = next(n for n, item in enumerate(model.graphs) if item is chosen)
    return Entry(chosen, index, names)


def _unknown(kind: str, name: str, names: Sequence[str]) -> str:
    """Return the message of the error for an unknown name.

    ``kind``: "signature" or "graph".  ``names``: the names that the model has.
    """
    choices = f"; the model has {', '.join(names)}" if names else f"; the model has no {kind}s"
    return f"there is no {kind} {name!r}{did_you_mean(name, names) or choices}"


def _records(model: Model, entry: Entry, arguments: argparse.Namespace) -> Mapping[str, Sequence[Array]]:
    """Return the inputs of each run, by the label of the record.

    Random inputs are one record with the label "random"; its floats have a normal distribution.
    """
    if arguments.inputs is not None:
        return read_records(arguments.inputs, model, entry.graph)
    try:
        which = InputSet("normal", seed=arguments.seed or 0)
        sizes = sizes_that_run(model, lambda s: make_inputs(entry.graph, which, s), entry.index)
        return {"random": make_inputs(entry.graph, which, sizes)}
    except UnsupportedError as error:
        if any(value.shape is None for value in entry.graph.inputs):  # not for a dtype that numpy lacks
            error.note("--inputs DATA runs on inputs of your own")
        raise


def _outputs(interpreter: Interpreter, entry: Entry, label: str, arrays: Sequence[Array]) -> list[Array]:
    """Run the record ``label``, from the initial state of the model, and return its outputs."""
    interpreter.reset()
    try:
        return interpreter.run(arrays, entry.index)
    except CirclekitError as error:
        raise error.note(f"on {label} inputs") from None
