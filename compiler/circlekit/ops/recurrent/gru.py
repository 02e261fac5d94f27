# SPDX-License-Identifier: Apache-2.0
"""Circle's gated recurrent unit.  Source: luci-interpreter GRU, which fuses Keras' GRU."""

from __future__ import annotations

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import i32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_float, require_rank
from circlekit.ops.dimensions import dims_differ
from circlekit.ops.operand_dtypes import REAL
from circlekit.ops.recurrent.lstm_float import sigmoid


class Gru(Op, code="GRU", options="GRUOptions", formats=frozenset({"circle"})):
    """The last state of a GRU over a sequence [time, batch, inputs], starting from ``state`` [batch, units].

    The weights have the rows of the update, reset and candidate gates.  In the only implementation, the
    operands ``hidden_hidden`` [3 units, inputs] are the weights of the input, and ``hidden_input``
    [3 units, units] those of the state, in spite of their names.
    """

    input = operand(*REAL)
    hidden_hidden = operand(*REAL)
    hidden_hidden_bias = optional_operand(*REAL, i32)
    hidden_input = operand(*REAL)
    hidden_input_bias = optional_operand(*REAL, i32)
    state = operand(*REAL)

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    return_sequences: bool = attribute(False)
    time_major: bool = attribute(False)

    def infer(self) -> TensorType:
        data = require_rank(self.input, "input", 3)
        weights = require_rank(self.hidden_hidden, "hidden_hidden", 2)
        if data is not None and weights is not None and dims_differ(data[2], weights[1]):
            raise ShapeError(f"hidden_hidden: expected {data[2]} columns, one per input, got {weights[1]}")
        return TensorType(self.input.dtype, self.state.shape)

    def kernel(
        self, input: Array, hidden_hidden: Array, hidden_hidden_bias: Array | None, hidden_input: Array,
        hidden_input_bias: Array | None, state: Array,
    ) -> Array:  # fmt: skip
        require_float(self, input, hidden_hidden, hidden_input, state)
        if self.return_sequences or self.act is not Activation.NONE:
            raise UnsupportedError("GRU with return_sequences or a fused activation has no kernel")
        hidden = state.reshape(-1, state.shape[-1])
        driven = input @ hidden_hidden.T
        if hidden_hidden_bias is not None:
            driven = driven + hidden_hidden_bias
        for driven_now in driven:
            recurrent = hidden @ hidden_input.T
            if hidden_input_bias is not None:
                recurrent = recurrent + hidden_input_bias
            from_input, from_state = (np.split(x, 3, axis=-1) for x in (driven_now, recurrent))
            update = sigmoid(from_state[0] + from_input[0])
            reset = sigmoid(from_state[1] + from_input[1])
            candidate = np.tanh(reset * from_state[2] + from_input[2])
            hidden = hidden * update + (1 - update) * candidate
        return np.asarray(hidden.reshape(state.shape))
