# SPDX-License-Identifier: Apache-2.0
# Refused: RELU_N1_TO_1 has no kernel for i32.

graph main(%x: i32[2,3]) -> %y {
  %m = Minimum(%x, 1)
  %y = Maximum(%m, -1)
}

rules {
  passes(transform_max_to_relu)
  unchanged()
  refused("%x: is i32, expected f32")
}
