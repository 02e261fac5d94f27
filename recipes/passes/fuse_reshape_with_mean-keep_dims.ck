# SPDX-License-Identifier: Apache-2.0
# Refused: %b: keep_dims is False, expected True

graph main(%x: f32[2,3,4]) -> %y {
  %a = Neg(%x)
  %b = Mean(%a, [2])
  %c = Reshape(%b, [3, 2])
  %y = Neg(%c)
}

rules {
  passes(fuse_reshape_with_mean)
  unchanged()
  refused("keep_dims is False, expected True")
}
