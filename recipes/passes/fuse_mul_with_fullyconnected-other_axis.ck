# SPDX-License-Identifier: Apache-2.0
# Refused: %z/rhs: shape is [5,1], expected [*,O|1] with O = 3

graph main(%x: f32[2,5,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %y = FullyConnected(%x, %w, none) {keep_num_dims: true}
  %z = Mul(%y, [[1.0], [2.0], [3.0], [4.0], [5.0]])
}

rules {
  passes(fuse_mul_with_fullyconnected)
  unchanged()
  refused("shape is [5,1], expected [*,O|1] with O = 3")
}
