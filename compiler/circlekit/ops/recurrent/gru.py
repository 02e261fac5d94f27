# SPDX-License-Identifier: Apache-2.0
"""Circle's gated recurrent unit.  Source: luci-interpreter GRU, which fuses Keras' GRU."""

from __future__ import annotations

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_float, require_rank
from circlekit.ops.dimensions import dims_differ
from circlekit.ops.recurrent.lstm_cell import sigmoid


class Gru(Op, code="GRU", options="GRUOptions", formats=frozenset({"circle"})):
    """The last state of a sequence [time, batch, inputs] that starts from ``state`` [batch, units].

    Rows of the weights are those of the update, reset and candidate gates.  ``hidden_hidden``
    [3 units, inputs] meets the input and ``hidden_input`` [3 units, units] the state: the names are the
    schema's, the roles those that its one implementation gives them.
    """

    input = operand()
    hidden_hidden = operand()
    hidden_hidden_bias = optional_operand()
    hidden_input = operand()
    hidden_input_bias = optional_operand()
    state = operand()

    act: Activation = attribute(Activation.NONE, field="fused_activation_function")
    return_sequences: bool = attribute(False)
    time_major: bool = attribute(False)

    def infer(self) -> TensorType:
        data = require_rank(self.input, "input", 3)
        weights = require_rank(self.hidden_hidden, "hidden_hidden", 2)
        if data is not None and weights is not None and dims_differ(data[2], weights[1]):
            raise ShapeError(f"hidden_hidden takes {weights[1]} inputs, the input has {data[2]}")
        return TensorType(self.input.dtype, self.state.shape)

    def kernel(
        self, input: Array, hidden_hidden: Array, hidden_hidden_bias: Array | None, hidden_input: Array,
        hidden_input_bias: Array | None, state: Array,
    ) -> Array:  # fmt: skip
        require_float(self, input, hidden_hidden, hidden_input, state)
        if self.return_sequences or self.act is not Activation.NONE:
            raise UnsupportedError("GRU that returns its sequence, or has an activation, has no kernel")
        hidden = state.reshape(-1, state.shape[-1])
        driven = input @ hidden_hidden.T
        if hidden_hidden_bias is not None:
            driven = driven + hidden_hidden_bias
        for row in driven:
            recurrent = hidden @ hidden_input.T
            if hidden_input_bias is not None:
                recurrent = recurrent + hidden_input_bias
            update, reset, candidate = np.split(recurrent, 3, axis=-1)
            given = np.split(row, 3, axis=-1)
            kept = sigmoid(update + given[0])
            new = np.tanh(sigmoid(reset + given[1]) * candidate + given[2])
            hidden = hidden * kept + (1 - kept) * new
        return np.asarray(hidden.reshape(state.shape))
