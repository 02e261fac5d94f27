# SPDX-License-Identifier: Apache-2.0
# Refused: %c: Add works only on data of rank 3, because only its constant has this rank.

graph main(%x: f32[4,6]) -> %y {
  %w = const f32[1,1,6] gaussian(0, 1)
  %a = Neg(%x)
  %b = Add(%a, %w)
  %c = Reshape(%b, [1,1,4,6])
  %y = Exp(%c)
}

rules {
  passes(extend_rank)
  unchanged()
  refused("%c: Add works only on data of rank 3")
}
