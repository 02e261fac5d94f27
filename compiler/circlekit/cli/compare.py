# SPDX-License-Identifier: Apache-2.0
"""circlekit compare: by how much the outputs of two models, or two files of arrays, differ."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from circlekit.api.models import load, records_of
from circlekit.cli.arguments import Parser, add_inputs, finite_number, non_negative_number, output_path
from circlekit.cli.command import FAILED, Command
from circlekit.cli.output.json_text import json_text
from circlekit.cli.output.quantization_errors import judgement_document, judgement_lines
from circlekit.cli.output.terminal import paragraph, text_columns
from circlekit.cli.result import PIPE, source_name, source_of
from circlekit.equivalence.array_comparison import Outcome
from circlekit.equivalence.data_files.array_files import ARRAY_SUFFIXES, compare_files
from circlekit.equivalence.data_files.input_files import GIVEN
from circlekit.equivalence.judgement.error_metrics import ErrorMetrics
from circlekit.equivalence.judgement.judge import Judge, Judgement, is_quantized_form
from circlekit.equivalence.layer_comparison import compare_layers, compare_models
from circlekit.equivalence.model_comparison import Comparison
from circlekit.equivalence.verify import Verifier
from circlekit.io.write.file_writer import write_file
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.resources.progress import progress
from circlekit.ir.text.columns import format_columns, listed
from circlekit.ir.text.lines import print_op

MAX_LABELS = 6
"""The text names at most this many sets of inputs."""

JSON_SCHEMA = 1
"""The version of the JSON document (docs/guide/data.md); a change that breaks readers increases it."""

MAX_PRINTED_LAYERS = 40
"""The text lists at most this many results of operators that differ; ``--json`` has all results."""

DESCRIPTION = """Compare the outputs of two models; exit with 1 if they differ.

BEFORE is the reference. The models run on seeded inputs (normal, boundary, zero and others), or on those
of --inputs. In place of two models, give two npz, npy or HDF5 files to compare arrays of the same name."""


def _declare(parser: Parser) -> None:
    parser.add_argument("before", help="the reference: a model, or an npz, npy or HDF5 file")
    parser.add_argument("after", help="the model or file to compare with the reference")
    add_inputs(parser, purpose="compare on the inputs")
    parser.add_argument(
        "--tolerance", type=non_negative_number, metavar="TOL",
        help="absolute difference up to which numbers are equal (default: 1e-5 of the largest magnitude for"
        " float32, more if the model amplifies rounding errors; 0 for integers)",
    )  # fmt: skip
    parser.add_switch(
        "--per-layer", help="also compare results of operators that have the same name in both models",
    )  # fmt: skip
    parser.add_argument(
        "--csv", type=output_path, metavar="FILE",
        help="for a quantized model: write a row for each operator, in the columns of TensorFlow's"
        " QuantizationDebugger",
    )  # fmt: skip
    parser.add_argument(
        "--min-sqnr", type=finite_number, metavar="DB",
        help="for a quantized model: exit with 0, whatever else differs, if every output has at least this"
        " ratio of signal to quantization noise or no noise, and is finite where the float output is",
    )  # fmt: skip
    parser.add_switch("--values-only", help="ignore signatures and the types of inputs and outputs")
    parser.add_switch("--by-position", help="pair inputs and outputs by position instead of by name")
    parser.add_switch("--json", help="print one JSON document")
    parser.add_switch("-q", "--quiet", help="print nothing but errors")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.before == arguments.after == PIPE:
        arguments.refuse("expected at most one model from the standard input, got two")
    are_files = [Path(p).suffix.lower() in ARRAY_SUFFIXES for p in (arguments.before, arguments.after)]
    if any(are_files):
        if not all(are_files):
            arguments.refuse("expected two models or two files of arrays, got one of each")
        if arguments.inputs is not None or arguments.per_layer or arguments.by_position:
            arguments.refuse("--inputs, --per-layer and --by-position are for models")
        _require_quantized(arguments, is_quantized=False)
        result = Result(Comparison(outputs=compare_files(arguments.before, arguments.after)))
    else:
        result = _compare_models(arguments)
    comparison = result.comparison
    if arguments.values_only and comparison.outputs:
        # as notes, the differences of the interface do not count
        comparison.notes = [*comparison.interface, *comparison.notes]
        comparison.interface = []
    if arguments.tolerance is not None:
        comparison.outputs = _within(comparison.outputs, arguments.tolerance)
        result.layers = _within(result.layers, arguments.tolerance)
    if arguments.csv is not None and result.judgement is not None:
        write_file(arguments.csv, [result.judgement.to_csv().encode()])
    if arguments.json and not arguments.quiet:
        print(json_text(_document(arguments, result), allow_nan=False))
    elif not arguments.quiet:
        print(*_lines(arguments, result), sep="\n")
    if arguments.min_sqnr is not None and result.judgement is not None:
        outputs = result.judgement.outputs.values()
        return 0 if all(_has_sqnr(metrics, arguments.min_sqnr) for metrics in outputs) else FAILED
    return 0 if comparison.equal else FAILED


compare_command = Command("circlekit compare", DESCRIPTION, "before after", _declare, _run)


@dataclass
class Result:
    """The result of the comparison of two models, or of two files of arrays.

    ``comparison``: the differences of the interfaces and of the outputs.  ``judgement``: the errors of a
    quantized model; None if the second model is not a quantized form of the first, or nothing was compared.
    ``layers``: the comparisons of results of operators.  ``ops``: the operators of the second model as text,
    by the names of their results.  ``layers`` and ``ops`` are filled only for ``--per-layer`` without a
    ``judgement``.
    """

    comparison: Comparison
    judgement: Judgement | None = None
    layers: list[Outcome] = field(default_factory=list)
    ops: dict[str, str] = field(default_factory=dict)


def _has_sqnr(metrics: ErrorMetrics, least: float) -> bool:
    """Return whether an output has an SQNR of ``least`` dB or no error, and is finite where it has to be."""
    sqnr = metrics.sqnr  # None for a float output of 0
    return not metrics.lost and (not metrics.noise or (sqnr is not None and sqnr >= least))


def _within(outcomes: Sequence[Outcome], tolerance: float) -> list[Outcome]:
    """Return copies of ``outcomes`` in which differences up to ``tolerance`` count as equal.

    Each copy has the largest difference in the whole array, not that in a single channel.
    """
    largest = [(outcome, outcome.whole or outcome.worst) for outcome in outcomes]
    return [
        replace(o, worst=worst and replace(worst, tolerance=tolerance), whole=None) for o, worst in largest
    ]


def _compare_models(arguments: argparse.Namespace) -> Result:
    before, after = (load(source_of(path)) for path in (arguments.before, arguments.after))
    if arguments.by_position:
        after = _with_names_of(before, after)
    is_quantized = is_quantized_form(before, after)
    _require_quantized(arguments, is_quantized)
    records = records_of(before, arguments.inputs)
    judge = Judge(before, after, records) if is_quantized else None
    progress().begin("running the models")
    # the constructor runs ``before`` on all inputs, and ``judge`` runs ``after`` on those that it judges
    verifier = Verifier(before, records, pair=judge)
    result = Result(compare_models(verifier, after))
    if judge is not None:
        result.judgement = judge.judgement if result.comparison.outputs else None
        return result
    if arguments.per_layer and result.comparison.outputs:
        progress().begin("comparing layers")
        result.ops = {value.name: print_op(op) for op in after.main for value in op.results}
        result.layers = compare_layers(before, after, verifier.runs[0])  # on the first inputs only
    return result


def _require_quantized(arguments: argparse.Namespace, is_quantized: bool) -> None:
    """Refuse ``--csv`` and ``--min-sqnr`` if the models are not a float model and its quantized form."""
    if not is_quantized and (arguments.csv is not None or arguments.min_sqnr is not None):
        arguments.refuse("--csv and --min-sqnr are for a float model and its quantized form")


def _with_names_of(before: Model, after: Model) -> Model:
    """Return a copy of ``after`` with the names of the inputs and outputs of ``before``, by position.

    If ``before`` has no signatures, the copy has none either: they would be reported as a difference.
    """
    copy = clone(after)
    for named, renamed in ((before.main.inputs, copy.main.inputs), (before.main.outputs, copy.main.outputs)):
        # if the models have different numbers of inputs or outputs, the comparison reports that later
        for reference, value in zip(named, renamed, strict=False):
            value.name = reference.name
    copy.signatures = before.signatures and copy.signatures
    return copy


# -- text --------------------------------------------------------------------------------------


def _lines(arguments: argparse.Namespace, result: Result) -> Iterator[str]:
    """Yield the lines of the text: names of models and inputs, tables, then sentences and the verdict."""
    comparison = result.comparison
    yield f"before  {source_name(arguments.before)}"
    yield f"after   {source_name(arguments.after)}"
    labels = list(dict.fromkeys(outcome.inputs for outcome in comparison.outputs))
    if any(labels):
        is_seeded, names = arguments.inputs is None, listed(labels, MAX_LABELS)
        named = "" if labels == [GIVEN] else f": {names}"  # a single record has no name of its own
        yield f"inputs  {names} (seeded)" if is_seeded else f"inputs  {arguments.inputs}{named}"
    if comparison.outputs:
        yield ""
        yield from _table(_worst_of_each(comparison.outputs), len(labels) > 1)
    if result.judgement is not None:
        yield ""
        yield from judgement_lines(result.judgement, text_columns(), arguments.per_layer)
    if result.layers:
        yield ""
        yield from _layer_lines(result.layers, result.ops)
    yield ""
    sentences = [f"interface: {sentence}" for sentence in comparison.interface]
    sentences += [f"note: {note}" for note in comparison.notes]
    if comparison.worst is not None and not comparison.worst.equal:
        sentences.append(str(comparison.worst))
    if not comparison.outputs:
        sentences.append("no outputs were compared")
    for sentence in [*sentences, comparison.verdict]:
        yield from paragraph(sentence)


def _worst_of_each(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return one outcome for each name: the one whose difference is largest in relation to its tolerance."""
    worst: dict[str, Outcome] = {}
    for outcome in outcomes:
        if outcome.name not in worst or outcome.excess > worst[outcome.name].excess:
            worst[outcome.name] = outcome
    return list(worst.values())


def _table(outcomes: Sequence[Outcome], with_inputs: bool = False) -> Iterator[str]:
    """Yield the lines of a table of ``outcomes``; the last column has the names, which may be long.

    ``with_inputs``: whether to append the label of the inputs, such as "normal", to the name.
    """
    rows: list[tuple[str, ...]] = [("", "difference", "allowed", "relative", "PSNR dB", "cosine")]
    rows += [("equal" if outcome.equal else "DIFFERENT", *_numbers(outcome)) for outcome in outcomes]
    names = ["", *(f"%{o.name}{f' on {o.inputs}' if with_inputs else ''}" for o in outcomes)]
    for line, name, outcome in zip(format_columns(rows).splitlines(), names, [None, *outcomes], strict=True):
        reason = f": {outcome.reason}" if outcome is not None and outcome.reason else ""
        yield f"{line}  {name}{reason}".rstrip()


def _numbers(outcome: Outcome) -> tuple[str, ...]:
    """Return the cells of a row of ``_table``, from "difference" to "cosine"; "" for an unknown number."""
    worst, similar = outcome.worst, outcome.similarity
    psnr = None if similar is None else similar.psnr
    cosine = None if similar is None else similar.cosine
    return (
        "" if worst is None else f"{worst.absolute:.3g}",
        "" if worst is None else f"{worst.tolerance:.3g}",
        "" if outcome.relative_to_largest is None else f"{outcome.relative_to_largest:.3g}",
        "" if psnr is None else "inf" if psnr == math.inf else f"{psnr:.1f}",
        "" if cosine is None else f"{cosine:.7f}",
    )


def _layer_lines(layers: Sequence[Outcome], ops: dict[str, str]) -> Iterator[str]:
    different = [outcome for outcome in layers if not outcome.equal]
    count = len(different)
    yield f"results of operators with the same name in both models: {len(layers)}, of which {count} differ"
    if not different:
        return
    first, *_ = different
    yield from paragraph(f"first difference: {first}")
    yield from paragraph(ops[first.name], "  ")
    yield from _table(different[:MAX_PRINTED_LAYERS])
    if len(different) > MAX_PRINTED_LAYERS:
        yield f"... and {len(different) - MAX_PRINTED_LAYERS} more; --json prints all"


# -- JSON --------------------------------------------------------------------------------------


def _document(arguments: argparse.Namespace, result: Result) -> dict[str, Any]:
    comparison, layers = result.comparison, result.layers
    document: dict[str, Any] = {
        "schema": JSON_SCHEMA,
        "before": arguments.before,
        "after": arguments.after,
        "inputs": arguments.inputs,
        "equal": comparison.equal,
        "interface": comparison.interface,
        "outputs": [_outcome_document(outcome) for outcome in comparison.outputs],
        "notes": comparison.notes,
    }
    if result.judgement is not None:
        document["quantization"] = judgement_document(result.judgement, arguments.per_layer)
    elif arguments.per_layer:
        document["layers"] = [_outcome_document(outcome) for outcome in layers]
        document["first_difference"] = next((o.name for o in layers if not o.equal), None)
    return document


def _outcome_document(outcome: Outcome) -> dict[str, Any]:
    """Return ``outcome`` as JSON types, with None for a number that is unknown or not finite."""
    worst, similar = outcome.worst, outcome.similarity
    numbers = {
        "difference": None if worst is None else worst.absolute,
        "tolerance": None if worst is None else worst.tolerance,
        "relative": outcome.relative_to_largest,
        "psnr_db": None if similar is None else similar.psnr,
        "cosine": None if similar is None else similar.cosine,
    }
    return {
        "name": outcome.name,
        "inputs": outcome.inputs or None,
        "equal": outcome.equal,
        "reason": outcome.reason or None,
        **{key: x if x is not None and math.isfinite(x) else None for key, x in numbers.items()},
        "index": None if worst is None else list(worst.index),
    }
