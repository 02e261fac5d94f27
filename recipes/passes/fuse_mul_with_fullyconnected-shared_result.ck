# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is also read by Neg %o

graph main(%x: f32[2,5,4]) -> %z, %o {
  %w = const f32[3,4] gaussian(0, 1)
  %y = FullyConnected(%x, %w, none) {keep_num_dims: true}
  %z = Mul(%y, 2.0)
  %o = Neg(%y)
}

rules {
  passes(fuse_mul_with_fullyconnected)
  unchanged()
  refused("%y: is also read by Neg")
}
