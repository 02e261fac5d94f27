# SPDX-License-Identifier: Apache-2.0
# Refused: %c: expected remaining axes in order, got [0, 3, 2]

graph main(%x: f32[2,3,4,4]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [0, 3, 1, 2])
  %c = Mean(%b, [2])
  %y = Neg(%c)
}

rules {
  passes(fuse_transpose_with_mean)
  unchanged()
  refused("%c: expected remaining axes in order, got [0, 3, 2]")
}
