# SPDX-License-Identifier: Apache-2.0
# Reversal of the first elements of each row, given its length.

graph main(%x: f32[2,5]) -> %y {
  %y = ReverseSequence(%x, [3, 5]) {seq_dim: 1, batch_dim: 0}
}
