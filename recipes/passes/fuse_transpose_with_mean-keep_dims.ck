# SPDX-License-Identifier: Apache-2.0
# Refused: %c: keep_dims is True, expected False

graph main(%x: f32[2,3,4,5]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [0, 3, 1, 2])
  %c = Mean(%b, [2, 3]) {keep_dims: true}
  %y = Neg(%c)
}

rules {
  passes(fuse_transpose_with_mean)
  unchanged()
  refused("keep_dims is True")
}
