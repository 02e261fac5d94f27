# SPDX-License-Identifier: Apache-2.0
"""Check what passes and pipelines promise ("What every rewrite keeps" in docs/design.md) on one model."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np

import circlekit
from circlekit.equivalence.model_comparison import interface_differences, interface_of
from circlekit.errors import CirclekitError, RewriteError, ShapeError, UnsupportedError
from circlekit.interp import run
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.value import Array
from circlekit.ir.verifier import check
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.optimization_report import PassRecord
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import find_pass, only_pipelines, pass_names, select_passes
from circlekit.rewrite.base import Context
from circlekit.testing.model_builder import UNKNOWN_SIZE, example
from tools.random_graphs.rounding import allowed_deviations

NOT_IDEMPOTENT = frozenset({"convert_nchw_to_nhwc"})
"""Passes that may change a model again: in a second run, or after other passes removed their transposes."""

FORMATS = ("circle", "tflite")

TOLERANCE = 2e-5
"""Relative to the largest magnitude of an output; a larger difference must be explained by rounding."""


class Fault(AssertionError):
    """A broken promise.  ``kind``: which promise, in a few words."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@contextmanager
def faults_of(what: str) -> Iterator[None]:
    """Turn any exception inside into a Fault.  ``what``: the beginning of its kind."""
    try:
        yield
    except Fault:
        raise
    except RewriteError as error:
        kind = "not idempotent" if "still change" in error.message else f"{what} RewriteError"
        raise Fault(kind, str(error)) from error
    except Exception as error:
        raise Fault(f"{what} {type(error).__name__}", str(error)) from error


class Original:
    """A model before any pass, with its outputs for several sets of inputs.

    ``formats``: the formats that can express it.  ``fired``: the number of changes of each pass.
    ``has_nan``: for each set of inputs, whether NaN occurs; then values are not compared.
    """

    def __init__(self, model: Model, inputs: Sequence[Array]) -> None:
        self.model = model
        self.text = print_model(model)
        self.inputs: list[list[Array]] = []
        self.outputs: list[list[Array]] = []
        self.has_nan: list[bool] = []
        for number, arrays in enumerate(_input_sets(model, inputs)):
            with suppress(CirclekitError) if number else nullcontext():  # an index may be out of range
                self._run(arrays)
        self.formats = tuple(format for format in FORMATS if _can_express(model, format))
        self.checksum = _checksum(model)
        self.fired: Counter[str] = Counter()

    def _run(self, arrays: list[Array]) -> None:
        """Run the model on ``arrays``; keep them and the outputs.  Raise ShapeError for an empty result."""
        found = False

        def observe(op: object, results: Sequence[Array]) -> None:
            nonlocal found
            found = found or any(a.dtype.kind == "f" and bool(np.isnan(a).any()) for a in results)
            if any(a.size == 0 for a in results):
                raise ShapeError("kernels differ on empty tensors")

        self.outputs.append(run(self.model, arrays, observe=observe))
        self.inputs.append(arrays)
        self.has_nan.append(found)

    # -- passes --------------------------------------------------------------------------------

    def run_on(
        self, model: Model, passes: str | Sequence[str], format: str, explain: bool = False
    ) -> list[PassRecord]:
        """Run a pipeline, or a list of passes, on ``model``; ``explain``: collect refusals."""
        is_pipeline = only_pipelines(passes)
        context = Context(format=format, exact=is_pipeline, refusals=[] if explain else None)
        return run_passes(model, select_passes(passes, format=format if is_pipeline else None), context)

    def check_single(self, name: str, format: str) -> None:
        """Check all promises of a single pass, if it changes the model."""
        model = clone(self.model)
        if self._fires(model, [name], format) or difference(model, self.model) is not None:
            self._check_result(model, [name], format, with_text=False)

    def check(self, passes: str | Sequence[str], format: str, with_text: bool = True) -> Model:
        """Check all promises of ``passes`` on a copy, and return it; ``with_text``: also parse its text."""
        model = clone(self.model)
        self._fires(model, passes, format)
        self._check_result(model, passes, format, with_text)
        return model

    def _fires(self, model: Model, passes: str | Sequence[str], format: str) -> bool:
        """Run ``passes`` on ``model``; note which of them fired, and return whether any did."""
        with faults_of("pass"):
            records = self.run_on(model, passes, format)
        self.fired.update({r.name: r.changes for r in records if r.changes})
        return any(r.changes for r in records)

    def _check_result(self, model: Model, passes: str | Sequence[str], format: str, with_text: bool) -> None:
        """Check all promises of ``passes``, which have run on ``model``."""
        names = pass_names(passes, format=format if isinstance(passes, str) else None)
        after = print_model(model)
        if after != self.text:
            self._check_changed(model, names)
        elif len(names) == 1:
            return
        with faults_of("second run"):
            records = self.run_on(model, passes, format)
        changed = [r.name for r in records if r.changes]
        if not NOT_IDEMPOTENT.issuperset(names) and (changed or print_model(model) != after):
            raise Fault("not idempotent", f"the second run still changes: {', '.join(changed)}")
        if with_text:
            self._check_text(model, after)
        self._check_explained(passes, format, after)

    def check_interface_change(self, name: str, format: str) -> None:
        """Run a pass that changes the interface; require a valid result, or a CirclekitError."""
        model = clone(self.model)
        try:
            self._fires(model, [name], format)
        except Fault as fault:
            if not isinstance(fault.__cause__, CirclekitError):
                raise
        else:
            self._check_changed(model, [name])

    def _check_changed(self, model: Model, names: Sequence[str]) -> None:
        """Require a valid model, with the interface and the values that the passes ``names`` must keep."""
        kinds = [find_pass(name) for name in names]
        with faults_of("invalid"):
            check(model)
            check_shapes(model)
        if not any(kind.changes_interface for kind in kinds):
            self.check_same(model, any(kind.changes_values for kind in kinds))

    def _check_text(self, model: Model, text: str) -> None:
        with faults_of("text"):
            found = difference(parse_model(text), model)
        if found is not None:
            raise Fault("text", str(found))

    def _check_explained(self, passes: str | Sequence[str], format: str, text: str) -> None:
        """Require the same result in another run, which collects refusals, and an unchanged original."""
        explained = clone(self.model)
        with faults_of("explained"):
            self.run_on(explained, passes, format, explain=True)
        if print_model(explained) != text:
            raise Fault("explained", "another run, which collects refusals, has another result")
        if print_model(self.model) != self.text or _checksum(self.model) != self.checksum:
            raise Fault("shared", "the original changed through its clone")

    # -- values and files ----------------------------------------------------------------------

    def check_same(self, model: Model, any_values: bool = False) -> None:
        """Require the interface of the original and, unless ``any_values`` or NaN occurs, its outputs."""
        changed = interface_differences(interface_of(self.model), interface_of(model))
        if changed:
            raise Fault("interface", "; ".join(changed))
        for inputs, expected, has_nan in zip(self.inputs, self.outputs, self.has_nan, strict=True):
            with faults_of("run"):
                found = run(model, inputs)
            if not any_values and not has_nan:
                self.check_close(inputs, found, expected)

    def check_close(self, inputs: Sequence[Array], found: Sequence[Array], expected: Sequence[Array]) -> None:
        """Require equal outputs, except for differences that rounding explains in this model."""
        if all(_is_close(a, b) for a, b in zip(found, expected, strict=True)):
            return
        allowed = allowed_deviations(self.model, inputs, expected)
        pairs = zip(self.model.main.outputs, found, expected, allowed, strict=True)
        for value, a, b, more in pairs:
            if not _is_close(a, b, more.deviation, more.is_free):
                raise Fault("values", f"%{value.name} is {_brief(a)}, was {_brief(b)}")

    def check_files(self, model: Model, folder: Path) -> None:
        """Require that files of each format hold the same model, and have the same bytes when saved again."""
        for format in self.formats:
            path, second = folder / f"model.{format}", folder / f"again.{format}"
            with faults_of("files"):
                circlekit.save(model, path)
                again = circlekit.load(path)
                check(again)
                circlekit.save(again, second)
                legal = legalize(model, format)
            self.check_same(again)
            if operator_lines(again) != operator_lines(legal):
                raise Fault("files", "other operators or types after loading")
            if path.read_bytes() != second.read_bytes():
                raise Fault("files", "other bytes when written again")


def _can_express(model: Model, format: str) -> bool:
    """Return whether every operator exists in ``format``, or is legalized to operators that do."""
    try:
        to_bytes(legalize(model, format), format)
    except CirclekitError as error:  # the check of the files reports other errors
        return not isinstance(error, UnsupportedError)
    return True


def operator_lines(model: Model) -> list[list[str]]:
    """Return the operators with the names and types of their results."""
    return [[f"{op.code} {op.results}" for op in graph] for graph in model.graphs]


def count_ops(model: Model) -> int:
    return sum(1 for _ in model.ops())


def _input_sets(model: Model, inputs: Sequence[Array]) -> list[list[Array]]:
    """Return the given inputs, random ones, zeros; for unknown sizes also random ones of sizes 2 and 1."""
    random = np.random.default_rng(1)
    pairs = list(zip(model.main.inputs, inputs, strict=True))

    def other(unknown: int) -> list[Array]:
        return [
            a if a.dtype == object else example(v.shape if v.shape else a.shape, v.dtype, random, unknown)
            for v, a in pairs
        ]

    zeros = [a if a.dtype == object else np.zeros_like(a) for a in inputs]
    sets = [list(inputs), other(UNKNOWN_SIZE), zeros]
    if any(v.shape is not None and None in v.shape for v in model.main.inputs):
        sets += [other(2), other(1)]
    return sets


def _is_close(
    found: Array, expected: Array, deviation: Array | float = 0.0, is_free: Array | bool = False
) -> bool:
    """Return whether dtypes and shapes are equal, and elements close; where ``is_free``, any element will do.

    Close: within ``deviation`` or, for floats, TOLERANCE of the largest magnitude, whichever is more.
    """
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return False
    if expected.dtype.kind not in "fiub":
        return bool(np.array_equal(found, expected, equal_nan=expected.dtype.kind == "c"))
    with np.errstate(all="ignore"):
        a, b = _clipped(found), _clipped(expected)
        largest = np.abs(b[np.isfinite(b)]).max(initial=0.0) if expected.dtype.kind == "f" else 0.0
        near = np.abs(a - b) <= np.maximum(TOLERANCE * largest, deviation)
        return bool(np.all(near | (a == b) | (np.isnan(a) & np.isnan(b)) | is_free))


def _clipped(array: Array) -> Array:
    """Return float64, with infinities as the largest numbers of the dtype: some kernels clamp there."""
    if array.dtype.kind == "f":
        array = np.clip(array, np.finfo(array.dtype).min, np.finfo(array.dtype).max)
    return array.astype(np.float64)


def _brief(array: Array) -> str:
    text = np.array2string(array.reshape(-1)[:6], precision=4, separator=", ")
    return f"{array.dtype}{list(array.shape)} {text}"


def _checksum(model: Model) -> int:
    """Return a checksum of the data of all constants."""
    total = 0
    for graph in model.graphs:
        for value in graph.values():
            if value.data is not None:
                total = zlib.crc32(np.ascontiguousarray(value.data).tobytes(), total)
    return total
