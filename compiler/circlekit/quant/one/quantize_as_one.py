# SPDX-License-Identifier: Apache-2.0
"""Quantize by the schemes that follow ONE's rules, with ranges from a calibration."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlekit.ir.dtypes import DType, f32, u8
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import OWN_RANGES, QuantizationRule
from circlekit.ir.value import Quantization
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.quantized_values import is_quantized, zero_point_of
from circlekit.quant.cautions import by_reason
from circlekit.quant.choose import Ranges
from circlekit.quant.one.settings import CHANNEL, LAYER, LayerSetting, Settings
from circlekit.quant.one.with_minmax import quantize_operators, uncalled_graphs
from circlekit.quant.plan import Plan, key_of
from circlekit.quant.scheme import Scheme
from circlekit.quant.weights import indices_of, is_computed_float
from circlekit.targets.target import find_target

PREPARATION = ("fold_dequantize",)
"""The names of passes to run before the quantization; without these, some operators would stay float."""

RUNTIMES = ("luci", "onert", "litert")
"""The targets among which ``kernel_notes`` looks for a kernel."""


def quantize_as_one(
    model: Model,
    scheme: Scheme,
    ranges: Ranges,
    schemes: Mapping[Op, Scheme | None],
    inputs: DType | None = None,
    outputs: DType | None = None,
) -> Plan:
    """Quantize ``model`` in place by ONE's rules; return a plan that says what was done, with reasons.

    ``scheme``: the default scheme.  ``schemes``: the schemes of single operators, None for float.
    ``ranges``: for each graph, (min, max) of activations by name; those of called graphs, which stay float,
    are not used.
    ``inputs``, ``outputs``: the dtypes of inputs and outputs; None: float32.
    Raise the errors of ``quantize_operators``.
    """
    by_graph = dict(zip(model.graphs, ranges, strict=False))
    for graph in uncalled_graphs(model):
        found = by_graph.get(graph, {})
        for value in graph.values():
            if is_computed_float(value) and value.name in found:
                low, high = (np.array([end], np.float32) for end in found[value.name])
                value.quantization = Quantization(min=low, max=high)
    settings = Settings(_setting(scheme), input_types=[inputs or f32], output_types=[outputs or f32])
    own_settings = {op: _setting(special) for op, special in schemes.items() if special is not None}
    floats = {op: "chosen to stay float" for op, special in schemes.items() if special is None}
    return quantize_operators(model, settings, own_settings, floats, scheme.name)


def kernel_notes(model: Model) -> list[str]:
    """Return sentences about the operators of the quantized ``model`` that may fail or give wrong results.

    These operators are:

    - operators that no target in RUNTIMES can run in their forms (dtypes, scales and zero points)
    - operators whose kernels expect the same scale and zero point for several tensors (``_mixes_scales``),
      where ONE chooses different ones
    - divisions whose divisor may hold the integer for 0
    """
    names: dict[str, list[str]] = {}  # by reason, the names of the operators
    for op in model.ops():
        refusals = [find_target(name).refusal(op) for name in RUNTIMES]
        if all(refusal is not None for refusal in refusals):
            # a refusal may end with the forms that the runtime has; they are left out
            reason = "; ".join(str(refusal).partition("; it has")[0] for refusal in refusals)
            names.setdefault(reason, []).append(key_of(op))
        rule = op.quantization_rule or OWN_RANGES
        if _mixes_scales(op, rule):
            expected = "kernels expect tensors with the same scale and zero point"
            reason = f"{op.code} gives wrong results: {expected}, ONE chooses different ones"
            names.setdefault(reason, []).append(key_of(op))
        for index in indices_of(op, rule.not_zero):
            value = op.inputs[index]
            if value is None or not is_quantized(value):
                continue
            if not value.is_const or (value.array() == zero_point_of(value)).any():
                names.setdefault(f"{op.code} fails where its divisor rounds to 0", []).append(key_of(op))
    return list(by_reason(names))


def _mixes_scales(op: Op, rule: QuantizationRule) -> bool:
    """Return whether tensors of ``op`` that need the same scale and zero point have different ones.

    These tensors are its results, and its operands in ``rule.results_follow`` and ``rule.operands_follow``.
    """
    if isinstance(op, Concatenation) and op.output.dtype is u8:
        return False  # its uint8 kernel converts operands to the scale of the result
    followed = [] if rule.results_follow is None else [rule.results_follow]
    operands = [op.inputs[index] for index in indices_of(op, [*followed, *rule.operands_follow])]
    values = [*operands, *op.results] if operands else []
    parameters = {
        (value.quantization.scale.tobytes(), value.quantization.zero_point.tobytes())
        for value in values
        if value is not None and value.quantization is not None and value.dtype.is_integer
    }
    return len(parameters) > 1


def _setting(scheme: Scheme) -> LayerSetting:
    """Return the setting of ONE's quantizer for ``scheme``, one of the schemes that follow ONE's rules."""
    assert scheme.activations is not None  # all schemes of ONE have integer activations
    return LayerSetting(scheme.activations, CHANNEL if scheme.per_channel else LAYER)
