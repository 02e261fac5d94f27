# SPDX-License-Identifier: Apache-2.0
# Refused: %y: act is RELU, expected NONE

graph main(%x: f32[2,5,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %y = FullyConnected(%x, %w, none) {act: RELU, keep_num_dims: true}
  %z = Mul(%y, 2.0)
}

rules {
  passes(fuse_mul_with_fullyconnected)
  unchanged()
  refused("%y: act is RELU")
}
