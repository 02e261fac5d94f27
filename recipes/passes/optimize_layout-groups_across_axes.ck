# SPDX-License-Identifier: Apache-2.0
# Refused: a group has elements of a channel and of the next one, so it is no part of the axes of x.

graph main(%x: f32[1,4,4,6]) -> %v {
  %t = Transpose(%x, [0,3,1,2])
  %r = Reshape(%t, [1,4,24])
  %m = Mean(%r, [2]) {keep_dims: true}
  %d = Sub(%r, %m)
  %q = Square(%d)
  %v = Mean(%q, [2]) {keep_dims: true}
}

rules {
  passes(optimize_layout)
  unchanged()
}
