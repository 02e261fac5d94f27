# SPDX-License-Identifier: Apache-2.0
# Refused: %c: leaves the axes [0, 3, 2] in another order

graph main(%x: f32[2,3,4,5]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [0, 3, 1, 2])
  %c = Mean(%b, [2])
  %y = Neg(%c)
}

rules {
  passes(fuse_transpose_with_mean)
  unchanged()
  refused("%c: leaves the axes [0, 3, 2] in another")
}
