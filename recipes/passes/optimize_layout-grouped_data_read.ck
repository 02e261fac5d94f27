# SPDX-License-Identifier: Apache-2.0
# Refused: the grouped data are not only reduced, but also an output.

graph main(%x: f32[1,4,4,6]) -> %v, %d {
  %t = Transpose(%x, [0,3,1,2])
  %r = Reshape(%t, [1,2,3,16])
  %m = Mean(%r, [2,3]) {keep_dims: true}
  %d = Sub(%r, %m)
  %q = Square(%d)
  %v = Mean(%q, [2,3]) {keep_dims: true}
}

rules {
  passes(optimize_layout)
  unchanged()
}
