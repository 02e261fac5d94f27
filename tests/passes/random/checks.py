# SPDX-License-Identifier: Apache-2.0
"""What design section 6 promises of a pass or a pipeline, checked on one model."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import circlekit
from circlekit.interp.run import run
from circlekit.ir.clone import clone
from circlekit.ir.compare import difference
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.value import Array
from circlekit.ir.verify import check
from circlekit.passes.optimize import pass_names, run_passes
from circlekit.passes.replace.legalize import legalize
from circlekit.rewrite.base import Context
from tests.passes.random.maker import example

TOLERANCE = 2e-5
"""Of the largest magnitude of any value of the run: sums may be taken in another order."""


def runs(model: Model, inputs: Sequence[Array]) -> list[list[Array]]:
    """The inputs of a check: those that the model was made for, others, and zeros."""
    random = np.random.default_rng(1)
    others = [example(a.shape, v.dtype, random) for v, a in zip(model.main.inputs, inputs, strict=True)]
    return [list(inputs), others, [np.zeros_like(a) for a in inputs]]


class Original:
    """A model as it was, and what it computes."""

    def __init__(self, model: Model, inputs: Sequence[Array]) -> None:
        self.model = model
        self.text = print_model(model)
        self.inputs = runs(model, inputs)
        self.largest = [0.0] * len(self.inputs)
        self.outputs = [self._run(i) for i in range(len(self.inputs))]
        self.digest = _digest(model)

    def _run(self, index: int) -> list[Array]:
        def observe(op: object, results: Sequence[Array]) -> None:
            for array in results:
                if array.dtype.kind == "f":
                    with np.errstate(invalid="ignore"):
                        self.largest[index] = max(self.largest[index], float(np.abs(array).max(initial=0)))

        return run(self.model, self.inputs[index], observe=observe)

    def check(self, passes: str | Sequence[str], format: str, is_text_checked: bool = True) -> Model:
        """Run ``passes`` on a copy and check it; returns the copy."""
        names = pass_names(passes, format=format if isinstance(passes, str) else None)
        model = clone(self.model)
        run_passes(model, names, Context(format=format))
        check(model)
        self.check_same(model)
        once = print_model(model)
        records = run_passes(model, names, Context(format=format))
        assert not any(r.changes for r in records), [r.name for r in records if r.changes]
        assert print_model(model) == once
        if is_text_checked:
            assert difference(parse_model(once), model) is None
        explained = clone(self.model)
        run_passes(explained, names, Context(format=format, refusals=[]))
        assert print_model(explained) == once, "another result when refusals are wanted"
        assert print_model(self.model) == self.text, "the original changed through its clone"
        assert _digest(self.model) == self.digest, "a constant of the original changed"
        return model

    def check_same(self, model: Model) -> None:
        """The interface is that of the original, and so are the values."""
        assert interface(model) == interface(self.model)
        for inputs, wanted, largest in zip(self.inputs, self.outputs, self.largest, strict=True):
            assert_close(run(model, inputs), wanted, largest)

    def check_files(self, model: Model, folder: Path, litert: bool) -> None:
        """Written in both formats and read again it is what it was; LiteRT gives the same values."""
        for format in ("circle", "tflite"):
            path = folder / f"model.{format}"
            circlekit.save(model, path)
            again = circlekit.load(path)
            check(again)
            self.check_same(again)
            assert signs(again) == signs(legalize(model, format))
            circlekit.save(again, folder / f"again.{format}")
            assert path.read_bytes() == (folder / f"again.{format}").read_bytes()
        if litert:
            for inputs, wanted, largest in zip(self.inputs, self.outputs, self.largest, strict=True):
                assert_close(run_litert(path, inputs), wanted, largest)


def _digest(model: Model) -> int:
    total = 0
    for graph in model.graphs:
        for value in graph.values():
            if value.data is not None:
                total = zlib.crc32(np.ascontiguousarray(value.data).tobytes(), total)
    return total


def interface(model: Model) -> list[object]:
    graphs = [[f"%{v.name}: {v.type}" for v in (*g.inputs, *g.outputs)] for g in model.graphs]
    signatures = [
        (s.key, {k: v.name for k, v in s.inputs.items()}, {k: v.name for k, v in s.outputs.items()})
        for s in model.signatures
    ]
    return [graphs, signatures]


def assert_close(found: Sequence[Array], wanted: Sequence[Array], largest: float) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if b.dtype.kind == "f":
            np.testing.assert_allclose(a, b, 0, TOLERANCE * max(largest, 1.0))
        else:
            np.testing.assert_array_equal(a, b)


def run_litert(path: Path, inputs: Sequence[Array]) -> list[Array]:
    """Outputs of a file by LiteRT's reference kernels, or by its fast ones where it has no others."""
    try:
        kinds = OpResolverType.BUILTIN_REF
        interpreter = Interpreter(str(path), experimental_op_resolver_type=kinds, num_threads=1)
    except ValueError:
        kinds = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = Interpreter(str(path), experimental_op_resolver_type=kinds, num_threads=1)
    details = interpreter.get_input_details()
    for detail, array in zip(details, inputs, strict=True):
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def signs(model: Model) -> list[list[str]]:
    """The operators and the names and types of what they make."""
    return [[f"{op.code} {op.results}" for op in graph] for graph in model.graphs]
