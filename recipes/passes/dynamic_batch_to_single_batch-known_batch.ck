# SPDX-License-Identifier: Apache-2.0
# Left alone: the batch is known; the pass does not change other unknown dimensions.

graph main(%x: f32[2,?,3]) -> %y {
  %y = Relu(%x)
}

rules {
  passes(dynamic_batch_to_single_batch)
  unchanged()
}
