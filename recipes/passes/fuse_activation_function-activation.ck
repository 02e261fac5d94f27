# SPDX-License-Identifier: Apache-2.0
# Refused: %y: act is RELU, which RELU_N1_TO_1 cannot join

graph main(%x: f32[1,4,4,2], %o: f32[1,4,4,2]) -> %z {
  %y = Add(%x, %o) {act: RELU}
  %z = ReluN1To1(%y)
}

rules {
  passes(fuse_activation_function)
  unchanged()
  refused("%y: act is RELU")
}
