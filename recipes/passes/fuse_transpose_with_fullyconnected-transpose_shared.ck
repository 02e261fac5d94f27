# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected an operand from a Transpose that swaps the last two axes, is used once and reads no variable

graph main(%x: f32[2,3], %w: f32[4,3], %b: f32[4]) -> %y {
  %y = FullyConnected(%x, %w) : f32[2,4]
}

rules {
  passes(fuse_transpose_with_fullyconnected)
  unchanged()
  refused("expected an operand from a Transpose that swaps the last two axes, is used once and reads no variable")
}
