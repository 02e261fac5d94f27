# SPDX-License-Identifier: Apache-2.0
# Refused: %c: Softmax works only on data of rank 3; a new last axis would have one element.

graph main(%x: f32[1,4,6,1]) -> %y {
  %a = Reshape(%x, [1,4,6])
  %b = Softmax(%a)
  %c = Reshape(%b, [1,4,6,1])
  %y = Neg(%c)
}

rules {
  passes(extend_rank)
  unchanged()
  refused("%c: Softmax works only on data of rank 3")
}
