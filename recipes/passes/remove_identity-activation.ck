# SPDX-License-Identifier: Apache-2.0
# Refused: %z: act is RELU, expected NONE

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Concatenation(%x) {axis: 0, act: RELU}
  %y = Abs(%z)
}

rules {
  passes(remove_identity)
  unchanged()
  refused("act is RELU")
}
