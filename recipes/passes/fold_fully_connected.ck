# SPDX-License-Identifier: Apache-2.0
# Done: FULLY_CONNECTED of constants becomes a constant.

graph main(%x: f32[1,3]) -> %y {
  %r/input = const f32[1,2] [1.0, 2.0]
  %r/weights = const f32[3,2] [1.0, 2.0, 3.0, 4.0, 5.0, -6.0]
  %r = FullyConnected(%r/input, %r/weights) {act: RELU} : f32[1,3]
  %y = Add(%x, %r) : f32[1,3]
}

rules {
  passes(fold_fully_connected)
  order(Add)
}
