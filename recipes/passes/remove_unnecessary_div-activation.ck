# SPDX-License-Identifier: Apache-2.0
# Refused: %z: act is RELU_N1_TO_1, expected NONE

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Div(%x, 1.0) {act: RELU_N1_TO_1}
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_div)
  unchanged()
  refused("act is RELU_N1_TO_1")
}
