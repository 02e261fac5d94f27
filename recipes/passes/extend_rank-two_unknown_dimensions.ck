# SPDX-License-Identifier: Apache-2.0
# Refused: %a: Add works only on data of rank 3: a Reshape takes one unknown dimension, and %r has two.

graph main(%x: f32[1,4,1,6], %r: f32[?,?,6]) -> %y {
  %a = Reshape(%x, [1,4,6])
  %b = Add(%a, %r)
  %y = Neg(%b)
}

rules {
  passes(extend_rank)
  unchanged()
  refused("%a: Add works only on data of rank 3")
}
