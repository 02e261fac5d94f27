# SPDX-License-Identifier: Apache-2.0
# Refused: %z: act is RELU6, expected NONE

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Mul(%x, 1.0) {act: RELU6}
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_mul)
  unchanged()
  refused("act is RELU6")
}
