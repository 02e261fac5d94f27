# SPDX-License-Identifier: Apache-2.0
"""What design section 6 promises of a pass or a pipeline, checked on one model."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np

import circlekit
from circlekit.errors import CirclekitError, RewriteError, ShapeError, UnsupportedError
from circlekit.interp.interpreter import run
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.value import Array
from circlekit.ir.verifier import check
from circlekit.passes.engine.driver import run_passes
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.registry import find_pass, only_pipelines, pass_names
from circlekit.rewrite.base import Context
from circlekit.testing.model_builder import UNKNOWN_SIZE, example
from tools.random_graphs.noise import allowed

RESTLESS = frozenset({"convert_nchw_to_nhwc"})
"""Runs once, whatever the layout is afterwards: others move its transposes back for fewer bytes."""

FORMATS = ("circle", "tflite")

TOLERANCE = 2e-5
"""Of the largest magnitude of an output; what exceeds it is held against ``noise``."""


class Fault(AssertionError):
    """A promise that is broken; ``kind``: which, in a word."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@contextmanager
def faults_of(what: str) -> Iterator[None]:
    """Any exception but a Fault becomes one: nothing may be raised here."""
    try:
        yield
    except Fault:
        raise
    except RewriteError as error:
        kind = "restless" if "still change" in error.message else f"{what} RewriteError"
        raise Fault(kind, str(error)) from error
    except Exception as error:
        raise Fault(f"{what} {type(error).__name__}", str(error)) from error


class Original:
    """A model as it was, and what it computes.

    ``formats``: those in which it can be written, and so can what becomes of it.  ``fired``: how often each
    pass changed one of its copies.
    """

    def __init__(self, model: Model, inputs: Sequence[Array]) -> None:
        self.model = model
        self.text = print_model(model)
        self.inputs: list[list[Array]] = []
        self.outputs: list[list[Array]] = []
        self.has_nan: list[bool] = []
        for number, arrays in enumerate(_input_sets(model, inputs)):
            with suppress(CirclekitError) if number else nullcontext():  # an index that does not fit
                self._run(arrays)
        self.formats = tuple(format for format in FORMATS if _has_form(model, format))
        self.digest = _digest(model)
        self.fired: Counter[str] = Counter()
        self._untouched: Model | None = None

    def _run(self, arrays: list[Array]) -> None:
        """Note the outputs, and whether there is any NaN on the way, of which no kernel promises anything."""
        found = False

        def observe(op: object, results: Sequence[Array]) -> None:
            nonlocal found
            found = found or any(a.dtype.kind == "f" and bool(np.isnan(a).any()) for a in results)
            if any(a.size == 0 for a in results):
                raise ShapeError("of sizes that leave nothing, kernels differ")

        self.outputs.append(run(self.model, arrays, observe=observe))
        self.inputs.append(arrays)
        self.has_nan.append(found)

    def is_changed_by(self, name: str, format: str) -> bool:
        """Whether a pass by itself does anything; a copy that none has changed serves the next."""
        model, self._untouched = self._untouched or clone(self.model), None
        with faults_of("pass"):
            records = run_passes(model, [name], Context(format=format))
        if any(r.changes for r in records) or difference(model, self.model) is not None:
            return True
        self._untouched = model
        return False

    def check(self, passes: str | Sequence[str], format: str, is_text_checked: bool = True) -> Model:
        """Run ``passes`` on a copy and check it; returns the copy."""
        names = pass_names(passes, format=format if isinstance(passes, str) else None)
        model = self.optimized(names, passes, format, count=True)
        after = print_model(model)
        if after != self.text:
            self._check_changed(model, names)
        elif len(names) == 1:
            return model
        exact = only_pipelines(passes)
        with faults_of("second run"):
            records = run_passes(model, names, Context(format=format, exact=exact))
        changed = [r.name for r in records if r.changes]
        if not RESTLESS.issuperset(names) and (changed or print_model(model) != after):
            raise Fault("restless", f"the second run still changes: {', '.join(changed)}")
        if is_text_checked:
            self._check_text(model, after)
        self._check_explained(names, passes, format, after)
        return model

    def check_reshaped(self, name: str, format: str) -> None:
        """Run a pass that changes the interface: it makes a sound model, or says what speaks against it."""
        model = clone(self.model)
        with faults_of("pass"):
            try:
                records = run_passes(model, [name], Context(format=format))
            except CirclekitError:
                return
        self.fired.update({r.name: r.changes for r in records if r.changes})
        self._check_changed(model, [name])

    def _check_changed(self, model: Model, names: Sequence[str]) -> None:
        kinds = [find_pass(name) for name in names]
        with faults_of("invalid"):
            check(model)
            check_shapes(model)
        if not any(kind.changes_interface for kind in kinds):
            self.check_same(model, any(kind.changes_values for kind in kinds))

    def optimized(self, names: Sequence[str], passes: str | Sequence[str], format: str, count: bool) -> Model:
        """A copy on which ``names`` have run, which is what ``passes`` mean."""
        model = clone(self.model)
        with faults_of("pass"):
            records = run_passes(model, names, Context(format=format, exact=only_pipelines(passes)))
        if count:
            self.fired.update({r.name: r.changes for r in records if r.changes})
        return model

    def _check_text(self, model: Model, text: str) -> None:
        with faults_of("text"):
            found = difference(parse_model(text), model)
        if found is not None:
            raise Fault("text", str(found))

    def _check_explained(
        self, names: Sequence[str], passes: str | Sequence[str], format: str, text: str
    ) -> None:
        explained = clone(self.model)
        with faults_of("explained"):
            context = Context(format=format, refusals=[], exact=only_pipelines(passes))
            run_passes(explained, names, context)
        if print_model(explained) != text:
            raise Fault("explained", "another result when refusals are wanted")
        if print_model(self.model) != self.text or _digest(self.model) != self.digest:
            raise Fault("shared", "the original changed through its clone")

    def check_same(self, model: Model, any_values: bool = False) -> None:
        """The interface is that of the original, and so are the values, unless they may be ``any_values``."""
        before, after = interface(self.model), interface(model)
        if before != after:
            raise Fault("interface", f"was {before}, is {after}")
        for inputs, wanted, has_nan in zip(self.inputs, self.outputs, self.has_nan, strict=True):
            with faults_of("run"):
                found = run(model, inputs)
            if not any_values and not has_nan:
                self.check_close(inputs, found, wanted)

    def check_close(self, inputs: Sequence[Array], found: Sequence[Array], wanted: Sequence[Array]) -> None:
        """What differs by more than the tolerance must be what rounding makes of this model."""
        if all(_is_close(a, b) for a, b in zip(found, wanted, strict=True)):
            return
        extra = allowed(self.model, inputs, wanted)
        pairs = zip(self.model.main.outputs, found, wanted, extra, strict=True)
        for value, a, b, more in pairs:
            if not _is_close(a, b, more.deviation, more.free):
                raise Fault("values", f"%{value.name} is {_brief(a)}, was {_brief(b)}")

    def check_files(self, model: Model, folder: Path) -> None:
        """Written in each format and read again it is what it was; the same bytes when written again."""
        for format in self.formats:
            path, second = folder / f"model.{format}", folder / f"again.{format}"
            with faults_of("files"):
                circlekit.save(model, path)
                again = circlekit.load(path)
                check(again)
                circlekit.save(again, second)
                legal = legalize(model, format)
            self.check_same(again)
            if signs(again) != signs(legal):
                raise Fault("files", "other operators or types after loading")
            if path.read_bytes() != second.read_bytes():
                raise Fault("files", "other bytes when written again")


def _has_form(model: Model, format: str) -> bool:
    """Whether every operator is one of ``format``, or can be written as some of them."""
    try:
        to_bytes(legalize(model, format), format)
    except UnsupportedError:
        return False
    except CirclekitError:  # to be told where what became of it is written
        return True
    return True


def interface(model: Model) -> list[object]:
    """Names and types of what goes into and out of the graphs that can be run from outside.

    Others are bodies: where a condition is constant they go into what runs them.
    """
    entries = [g for g in model.graphs if g is model.main or any(s.graph is g for s in model.signatures)]
    graphs = [[f"%{v.name}: {v.type}" for v in (*g.inputs, *g.outputs)] for g in entries]
    signatures = [
        (s.key, {k: v.name for k, v in s.inputs.items()}, {k: v.name for k, v in s.outputs.items()})
        for s in model.signatures
    ]
    return [graphs, signatures]


def signs(model: Model) -> list[list[str]]:
    """The operators and the names and types of what they make."""
    return [[f"{op.code} {op.results}" for op in graph] for graph in model.graphs]


def count_ops(model: Model) -> int:
    return sum(1 for _ in model.ops())


def _input_sets(model: Model, inputs: Sequence[Array]) -> list[list[Array]]:
    """The inputs of a check: what the model was made for, others, zeros; unknown sizes 3, 2 and 1."""
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
    found: Array, wanted: Array, deviation: Array | float = 0.0, free: Array | bool = False
) -> bool:
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return False
    if wanted.dtype.kind not in "fiub":
        return bool(np.array_equal(found, wanted))
    with np.errstate(all="ignore"):
        a, b = _finite(found), _finite(wanted)
        largest = np.abs(b[np.isfinite(b)]).max(initial=0.0) if wanted.dtype.kind == "f" else 0.0
        near = np.abs(a - b) <= np.maximum(TOLERANCE * largest, deviation)
        return bool(np.all(near | (a == b) | (np.isnan(a) & np.isnan(b)) | free))


def _finite(array: Array) -> Array:
    """As float64; infinities are the largest numbers of the dtype, at which some kernels end."""
    if array.dtype.kind == "f":
        array = np.clip(array, np.finfo(array.dtype).min, np.finfo(array.dtype).max)
    return array.astype(np.float64)


def _brief(array: Array) -> str:
    text = np.array2string(array.reshape(-1)[:6], precision=4, separator=", ")
    return f"{array.dtype}{list(array.shape)} {text}"


def _digest(model: Model) -> int:
    total = 0
    for graph in model.graphs:
        for value in graph.values():
            if value.data is not None:
                total = zlib.crc32(np.ascontiguousarray(value.data).tobytes(), total)
    return total
