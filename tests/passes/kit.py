# SPDX-License-Identifier: Apache-2.0
"""Check a pass on a model in text form: operators, values, interface, idempotence."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from circlekit.interp.interpreter import run
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.value import Array, Value
from circlekit.ir.verifier import check
from circlekit.ops.movement.shape import Reshape
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import all_passes
from circlekit.rewrite.base import Context, Pass

TOLERANCE = 1e-5
"""Largest difference of a float or complex output, relative to its largest magnitude."""

UNKNOWN = 3
"""The size of unknown dimensions in the runs."""

KINDS = ("normal", "boundary", "zero")

EDGES = (0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 0.5, -0.5, 1e-3, -1e-3, 30.0, -30.0)
"""Where activations bend (0, 1, 3, 6), and numbers that are small or large compared with these."""

PassLike = str | type[Pass]


def check_pass(
    text: str,
    passes: PassLike | Sequence[PassLike],
    expect_ops: Sequence[str] | None = None,
    refused: str | None = None,
    format: str = "circle",
    tolerance: float = TOLERANCE,
) -> Model:
    """Run ``passes`` on the model of ``text``; check the operators, values and interface of the result.

    ``expect_ops``: the classes of the operators that are left in the main graph, in order.  ``refused``: a
    text that at least one refusal must contain; without ``expect_ops`` the model must then be unchanged.
    A single pass is run once, a list of passes until nothing changes; then another run must change nothing.
    Return the result.
    """
    model = parse_model(text)
    check(model)
    interface, before = interface_of(model), clone(model)
    inputs = [[make_input(v, kind) for v in model.main.inputs] for kind in KINDS]
    wanted = [run(model, arrays) for arrays in inputs]

    context = Context(format=format, refusals=[])
    changes = apply(model, passes, context)
    sentences = [r.sentence for r in context.refusals or ()]

    verify(model)
    if expect_ops is not None:
        found = [type(op).__name__ for op in model.main]
        assert found == list(expect_ops), f"operators left: {found}\n" + "\n".join(sentences)
    if refused is not None:
        assert any(refused in s for s in sentences), f"no refusal says {refused!r}, they say {sentences}"
        if expect_ops is None:
            assert changes == 0
            assert difference(model, before) is None
    assert interface_of(model) == interface
    for kind, arrays, values in zip(KINDS, inputs, wanted, strict=True):
        assert_close(run(model, arrays), values, f"{kind} inputs", tolerance)
    once = clone(model)
    assert apply(model, passes, Context(format=format)) == 0, "the second run still changes the model"
    assert difference(model, once) is None
    return model


def refusals(text: str, name: str) -> list[str]:
    """Return the refusals of pass ``name``; the model, which need not have kernels, must stay unchanged."""
    model, context = parse_model(text), Context(refusals=[])
    before = clone(model)
    assert apply(model, name, context) == 0
    assert difference(model, before) is None
    return [r.sentence for r in context.refusals or ()]


def chain(shape: str, *calls: str, outputs: str = "%y") -> str:
    """Return a graph: %a = Neg(%x), then ``calls`` that read %a, %b, ... and make %b, %c, ..., then %y = Neg.

    For example, ``chain("[2,3]", "Relu(%a)")`` has %a = Neg(%x), %b = Relu(%a) and %y = Neg(%b).
    """
    lines = [f"%{chr(98 + i)} = {call}" for i, call in enumerate(calls)]
    last = chr(97 + len(calls))
    body = "\n".join(["%a = Neg(%x)", *lines, f"%y = Neg(%{last})"])
    return f"graph main(%x: f32{shape}) -> {outputs} {{\n{body}\n}}"


def check_refusal(text: str, name: str, sentence: str) -> None:
    """Check that pass ``name`` refuses with a sentence that contains ``sentence``, and changes nothing.

    Unlike ``check_pass``, this function does not run the model, which may lack kernels.
    """
    sentences = refusals(text, name)
    assert any(sentence in s for s in sentences), f"no refusal says {sentence!r}, they say {sentences}"


def apply(model: Model, passes: PassLike | Sequence[PassLike], context: Context) -> int:
    """Run one pass once, or a list of passes until nothing changes; return the number of changes."""
    if isinstance(passes, str):
        return all_passes()[passes]().run(model, context)
    if isinstance(passes, type):
        return passes().run(model, context)
    return sum(record.changes for record in run_passes(model, list(passes), context))


def make_input(value: Value, kind: str) -> Array:
    """Return an array for ``value`` that depends only on its name, type and ``kind``."""
    assert value.dtype.numpy is not None
    assert value.shape is not None
    dtype, shape = value.dtype.numpy, tuple(UNKNOWN if d is None else d for d in value.shape)
    random = np.random.default_rng([zlib.crc32(value.name.encode()), KINDS.index(kind)])
    if kind == "zero":
        return np.zeros(shape, dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)  # type: ignore[type-var]  # the kind is i or u
        edges = np.array([limits.min, limits.max, 0], dtype)
        small = random.integers(max(limits.min, -100), 100, shape, endpoint=True)
        return random.choice(edges, shape) if kind == "boundary" else small.astype(dtype)
    data = random.standard_normal(shape) if kind == "normal" else random.choice(np.array(EDGES), shape)
    return data.astype(dtype)


def interface_of(model: Model) -> list[list[str]]:
    """Return the names and types of the inputs and outputs of every graph."""
    return [[f"%{v.name}: {v.type}" for v in (*g.inputs, *g.outputs)] for g in model.graphs]


def assert_close(
    found: Sequence[Array], wanted: Sequence[Array], what: str = "", tolerance: float = TOLERANCE
) -> None:
    """Assert that float and complex arrays differ by at most ``tolerance`` times the largest magnitude.

    NaN equals NaN.  Arrays of other dtypes must be equal.
    """
    assert len(found) == len(wanted), what
    for index, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"output {index} of {what}"
        if b.dtype.kind not in "fc":
            np.testing.assert_array_equal(a, b, f"output {index} of {what}")
            continue
        largest = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
        np.testing.assert_allclose(a, b, 0, tolerance * largest, err_msg=f"output {index} of {what}")


def verify(model: Model) -> None:
    """Assert that the model is valid, and that its text form gives an equal model.

    If a Reshape states its shape in the operand and in the attribute, both must be equal.
    """
    check(model)
    for op in model.ops():
        if isinstance(op, Reshape) and op.new_shape and op.shape is not None and op.shape.is_const:
            assert [*op.new_shape] == op.shape.array().tolist(), f"%{op.output.name}: two shapes"
    again = parse_model(print_model(model))
    assert difference(model, again) is None
