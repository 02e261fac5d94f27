# SPDX-License-Identifier: Apache-2.0
"""Long short-term memory over a sequence in both directions.  Source: TFLite bidirectional_sequence_lstm."""

from __future__ import annotations

from typing import Any

from circlekit.ir.op import attribute, operand, optional_operand
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.recurrent.lstm import FullLstm, LstmLayer
from circlekit.ops.recurrent.lstm_float import GATES


def _operands_of_both_directions() -> dict[str, Any]:
    """Return the declarations of weights, biases and projection for both directions, by name.

    Only the operands of the input gate, the peephole weights (``cell_to_...``), and the operands of the
    projection are optional.
    """
    declared: dict[str, Any] = {}
    for direction in ("fw_", "bw_"):
        for spec in FullLstm.operands[1:18]:  # from input_to_input_weights to projection_bias
            is_optional = "to_input_" in spec.name or spec.name.startswith(("input_gate", "cell_to", "proj"))
            declared[direction + spec.name] = (optional_operand if is_optional else operand)(*spec.dtypes)
    return declared


class BidirectionalSequenceLstm(
    LstmLayer,
    code="BIDIRECTIONAL_SEQUENCE_LSTM",
    options="BidirectionalSequenceLSTMOptions",
    variadic_results=True,
    directions=("fw_", "bw_"),
    states=("fw_output_state", "fw_cell_state", "bw_output_state", "bw_cell_state"),
):
    """Two LSTMs over a sequence: one forwards, one backwards.

    The input is [time, batch, inputs] with ``time_major``, else [batch, time, inputs].
    There are two results, the outputs of both.  With ``merge_outputs`` there is one result, the concatenation
    of both along the last axis.  For ``aux_input`` see ``RecurrentLayer``.
    """

    input = operand(*REAL)
    # vars() is the namespace of this class, so this declares operands at this position in the schema's order
    vars().update(_operands_of_both_directions())
    fw_output_state = operand(*REAL)
    fw_cell_state = operand(*REAL)
    bw_output_state = operand(*REAL)
    bw_cell_state = operand(*REAL)
    aux_input = optional_operand(*REAL)
    vars().update({f"fw_aux_input_to_{gate}_weights": optional_operand(*REAL) for gate in GATES})
    vars().update({f"bw_aux_input_to_{gate}_weights": optional_operand(*REAL) for gate in GATES})

    merge_outputs: bool = attribute(False)
    time_major: bool = attribute(True)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)
