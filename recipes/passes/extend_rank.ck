# SPDX-License-Identifier: Apache-2.0
# Done: operators between reshapes work on the axis of dimension 1, and the reshapes are not needed.

graph main(%x: f32[1,4,1,6]) -> %y {
  %w = const f32[4,1] gaussian(0, 1)
  %a = Reshape(%x, [1,4,6])
  %b = Pad(%a, [[0,0],[0,0],[2,0]])
  %c = Mul(%b, %w)
  %d = Transpose(%c, [0,2,1])
  %e = Concatenation(%d, %d) {axis: -1}
  %f = Mean(%e, [1]) {keep_dims: true}
  %y = Reshape(%f, [1,1,1,8])
}

rules {
  passes(extend_rank)
  order(Pad, Mul, Transpose, Concatenation, Mean)
}
