# SPDX-License-Identifier: Apache-2.0
# Refused: %y: has no operand that is transposed for it alone

graph main(%x: f32[2,3], %w: f32[4,3], %b: f32[4]) -> %y {
  %y = FullyConnected(%x, %w) : f32[2,4]
}

rules {
  passes(fuse_transpose_with_fullyconnected)
  unchanged()
  refused("has no operand that is transposed for it alone")
}
