# SPDX-License-Identifier: Apache-2.0
# Left alone: the batch is known; another unknown dimension is none of this pass's.

graph main(%x: f32[2,?,3]) -> %y {
  %y = Relu(%x)
}

rules {
  passes(dynamic_batch_to_single_batch)
  unchanged()
}
