# SPDX-License-Identifier: Apache-2.0
# Refused: %c: expected the shape [?,4], got [4,?]

graph main(%x: f32[?,4,5]) -> %y {
  %a = Neg(%x)
  %b = Mean(%a, [2]) {keep_dims: true}
  %c = Reshape(%b, [4, -1])
  %y = Neg(%c)
}

rules {
  passes(fuse_reshape_with_mean)
  unchanged()
  refused("expected the shape [?,4], got [4,?]")
}
