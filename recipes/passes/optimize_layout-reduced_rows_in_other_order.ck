# SPDX-License-Identifier: Apache-2.0
# Refused: the means per row and channel would have to be transposed.

graph main(%x: f32[1,4,5,6]) -> %v {
  %t = Transpose(%x, [0,3,1,2])
  %r = Reshape(%t, [1,2,3,4,5])
  %m = Mean(%r, [2,4]) {keep_dims: true}
  %d = Sub(%r, %m)
  %q = Square(%d)
  %v = Mean(%q, [2,4]) {keep_dims: true}
}

rules {
  passes(optimize_layout)
  unchanged()
}
