# SPDX-License-Identifier: Apache-2.0
"""Remedies for operators that a target cannot run and that no pass replaces.

A remedy is a text that names options of commands, other runtimes, and what to export instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.passes.support.lone_model import can_stand_alone, lone_model
from circlekit.quant.choose import choose
from circlekit.quant.scheme import SCHEMES, Arithmetic
from circlekit.targets.target import Target, find_target, target_names
from circlekit.targets.unsupported import Finding, code_of

RANGE = (0.5, 1.0)
"""The (lowest, highest) number of each tensor when a scheme is tried; no operator refuses such numbers."""


def with_other_remedies(model: Model, target: Target, findings: Sequence[Finding]) -> list[Finding]:
    """Return ``findings`` about ``target``, with a remedy for each finding that has none.

    A finding without a remedy must be about an operator, not about an input or output of the model.
    The new remedy names what helps an operator: known shapes, a quantization scheme in which the target has
    the operator, or other runtimes that run it as it is.  The remedy always says what to export instead.
    """

    def with_remedy(finding: Finding) -> Finding:
        if finding.remedy:
            return finding
        return replace(finding, remedy=_remedy(_op_of(model, finding), model.format, target))

    return [with_remedy(finding) for finding in findings]


def _op_of(model: Model, finding: Finding) -> Op:
    """Return the operator that ``finding`` is about.  Several graphs may have the name ``finding.graph``."""
    named = [graph.ops for graph in model.graphs if graph.name == finding.graph]
    ops = [ops[finding.index] for ops in named if finding.index < len(ops)]
    return next(op for op in ops if code_of(op) == finding.operator)


def _remedy(op: Op, format: str, target: Target) -> str:
    """Return the remedy for ``op`` in a model of ``format``."""
    options = [*_known_shapes(op, target), *_schemes(op, target), *_runtimes(op, format, target)]
    return "; or ".join([*options, f"export {target.wanted_change(op)} instead"])


def _known_shapes(op: Op, target: Target) -> Iterator[str]:
    """Yield a text about ``circlekit resize`` if the target runs ``op`` with known shapes."""
    if all(value.is_static for value in op.inputs if value is not None) or not can_stand_alone(op):
        return
    model = lone_model(op)
    for value in model.main.values():
        value.shape = value.shape and tuple(1 if dim is None else dim for dim in value.shape)
    (trial,) = model.main
    if target.refusal(trial) is None:
        yield "circlekit resize --shapes with known sizes of the inputs gives it a form that runs"


def _schemes(op: Op, target: Target) -> Iterator[str]:
    """Yield a text about ``circlekit quantize`` for the first scheme in which the target runs ``op``."""
    if not can_stand_alone(op):
        return
    model = lone_model(op)
    for value in model.main.values():
        if value.quantization is not None:  # make a float model; any elements will do for its constants
            value.dtype, value.quantization = f32, None
            value.data = None if value.data is None else np.ones(value.static_shape, np.float32)
    (trial,) = model.main
    name = trial.results[0].name if trial.results else ""
    ranges = {value.name: RANGE for value in model.main.values()}
    for scheme in SCHEMES.values():
        if scheme.arithmetic is not Arithmetic.INTEGERS or scheme.follows_one:
            continue
        with suppress(CirclekitError):
            plan = choose(model, [ranges], {trial: scheme}, scheme.name, target)
            planned = plan.main.operators.get(name)
            if planned is not None and planned.scheme == scheme.name:  # else another scheme, or float
                command = f"circlekit quantize --scheme {scheme.name} --target {target.name}"
                yield f"{command} on the float model gives it a form that runs"
                return


def _runtimes(op: Op, format: str, target: Target) -> Iterator[str]:
    """Yield texts about other runtimes that run ``op`` as it is, such as "onert runs it (--target onert)"."""
    others = [find_target(name) for name in target_names() if name != target.name]
    # not the targets with a delegate: litert-xnnpack is litert with a delegate
    running = [other for other in others if not other.delegated and other.refusal(op) is None]
    for formats in dict.fromkeys(other.formats for other in running):  # one text per set of file formats
        names = [other.name for other in running if other.formats == formats]
        verb = "runs" if len(names) == 1 else "run"
        if format in formats:
            yield f"{' and '.join(names)} {verb} it (--target {names[0]})"
        elif not op.formats or op.formats & formats:
            yield f"{' and '.join(names)} {verb} it in a .{min(formats)} file (--target {names[0]})"
