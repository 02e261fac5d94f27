# SPDX-License-Identifier: Apache-2.0
# Refused: %t: is an output of the graph

graph main(%x: f32[2,3,4,5], %u: f32[2,3,4,5]) -> %y, %t {
  %t/perm = const i32[4] [0, 3, 1, 2]
  %t = Transpose(%x, %t/perm) : f32[2,5,3,4]
  %y = Relu(%t) : f32[2,5,3,4]
}

rules {
  passes(forward_transpose_op)
  unchanged()
  refused("%t: is an output of the graph")
}
