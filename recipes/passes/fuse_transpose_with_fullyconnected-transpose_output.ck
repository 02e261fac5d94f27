# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected an operand from a Transpose that swaps the last two axes, is used once and reads no variable

graph main(%x: f32[2,4], %w: f32[4,3]) -> %y, %t {
  %t = Transpose(%w, [1,0])
  %y = FullyConnected(%x, %t)
}

rules {
  passes(fuse_transpose_with_fullyconnected)
  unchanged()
  refused("expected an operand from a Transpose that swaps the last two axes, is used once and reads no variable")
}
