# SPDX-License-Identifier: Apache-2.0
# Refused: %c: expected the shape [2,3,1], got [3,2]

graph main(%x: f32[2,3,4]) -> %y {
  %a = Neg(%x)
  %b = Mean(%a, [2])
  %c = Reshape(%b, [3, 2])
  %y = Neg(%c)
}

rules {
  passes(fuse_reshape_with_mean)
  unchanged()
  refused("%c: expected the shape [2,3,1], got [3,2]")
}
