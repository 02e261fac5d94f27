# SPDX-License-Identifier: Apache-2.0
# Done: the Transpose becomes a Reshape, although the file does not state the rank of its result.

graph main(%x: f32[3,1]) -> %y {
  %y = Transpose(%x, [1,0])  : f32[*]
}

rules {
  passes(optimize_layout)
  order(Reshape)
}
