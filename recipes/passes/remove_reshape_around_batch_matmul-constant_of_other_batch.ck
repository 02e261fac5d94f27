# SPDX-License-Identifier: Apache-2.0
# Refused: the constant has a batch of 4, the reshaped operand one of 1.

graph main(%x: f32[1,1,3,5]) -> %z {
  %u = Reshape(%x, [1, 3, 5])
  %v = const f32[4,5,7] gaussian(0, 1)
  %z = BatchMatMul(%u, %v)
}

rules {
  passes(remove_reshape_around_batch_matmul)
  unchanged()
  refused("%v: expected the batch dimensions of %u, [1], got [4]")
}
