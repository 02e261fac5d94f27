# SPDX-License-Identifier: Apache-2.0
# Refused: %w: is not constant, expected const f32[O,_]

graph main(%x: f32[2,5,4], %free: f32[3,4]) -> %z {
  %w = Neg(%free)
  %y = FullyConnected(%x, %w, none) {keep_num_dims: true}
  %z = Mul(%y, 2.0)
}

rules {
  passes(fuse_mul_with_fullyconnected)
  unchanged()
  refused("%w: is not constant")
}
