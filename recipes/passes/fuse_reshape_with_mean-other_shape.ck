# SPDX-License-Identifier: Apache-2.0
# Refused: %c: expected the shape [1,3], got [3]

graph main(%x: f32[1,3,4]) -> %y {
  %a = Neg(%x)
  %b = Mean(%a, [2]) {keep_dims: true}
  %c = Squeeze(%b)
  %y = Neg(%c)
}

rules {
  passes(fuse_reshape_with_mean)
  unchanged()
  refused("expected the shape [1,3], got [3]")
}
