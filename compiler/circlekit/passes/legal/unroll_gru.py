# SPDX-License-Identifier: Apache-2.0
"""Unroll GRU, which only ONE's interpreter has, into elementary operators for each time step."""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.activation import Logistic, Tanh
from circlekit.ops.arithmetic.binary import Add, Mul, Sub
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.join import Split, Unpack
from circlekit.ops.recurrent.rnn import Gru
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.insertion import Inserter

MAX_STEPS = 256
"""Length of the longest sequence that is unrolled; each step takes 14 operators."""


class UnrollGru(Replacement[Gru]):
    """gru(x)  ==  for each step: h = h * update + (1 - update) * tanh(reset * states[2] + inputs[2]).

    x: the input of the step.  h: the state, [batch, units].  A fully connected layer of x has 3 * units
    results; ``inputs`` are their three parts.  Another layer, of h, gives ``states`` in the same way.  Then
    update = logistic(states[0] + inputs[0]) and reset = logistic(states[1] + inputs[1]).  The result is the h
    of the last step.  The operator stays if it returns the h of all steps, has an activation or more than
    MAX_STEPS steps, or if a value is not f32, has an unknown shape or is empty.  Source: the kernel of
    ``Gru``.
    """

    changes_more = True  # so legalizations that change less of the model run first
    kinds = (Gru,)

    def results(self, op: Gru, insert: Inserter) -> list[Value] | None:
        values = [value for value in (*op.inputs, op.output) if value is not None]
        if not all(value.is_static and value.numel and value.dtype is f32 for value in values):
            return None
        if op.hidden_hidden.rank != 2 or op.hidden_input.rank != 2:  # FULLY_CONNECTED needs matrices
            return None
        count, batch, _ = op.input.static_shape
        if count > MAX_STEPS or op.return_sequences or op.act is not Activation.NONE:
            return None
        # in a GRU, ``hidden_hidden`` are the weights of the input, and ``hidden_input`` those of the state
        rows = insert.reshaped(op.input, (-1, op.input.static_shape[2]))
        sums = insert.make(FullyConnected(rows, op.hidden_hidden, op.hidden_hidden_bias))
        unpack = Unpack(insert.reshaped(sums, (count, batch, -1)), num=count, axis=0)
        insert.make(unpack)
        axis = insert.constant("axis", np.array(1, np.int32))
        one = insert.constant("one", np.array(1, np.float32))
        hidden = insert.reshaped(op.state, (-1, op.state.static_shape[-1]))
        for from_input in unpack.results:
            from_state = insert.make(FullyConnected(hidden, op.hidden_input, op.hidden_input_bias))
            parts = [Split(axis, value, num_splits=3) for value in (from_input, from_state)]
            for split in parts:
                insert.make(split)
            inputs, states = (split.results for split in parts)
            update, reset = (
                insert.make(Logistic(insert.make(Add(a, b))))
                for a, b in zip(states[:2], inputs[:2], strict=True)
            )
            gated = insert.make(Add(insert.make(Mul(reset, states[2])), inputs[2]))
            candidate = insert.make(Tanh(gated))
            kept = insert.make(Mul(hidden, update))
            new = insert.make(Mul(insert.make(Sub(one, update)), candidate))
            hidden = insert.make(Add(kept, new))
        return [insert.reshaped(hidden, op.output.static_shape)]
