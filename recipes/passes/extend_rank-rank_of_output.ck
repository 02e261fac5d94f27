# SPDX-License-Identifier: Apache-2.0
# Refused: an output keeps its shape, so Exp would need a Reshape after it in place of the one before it.

graph main(%x: f32[1,4,1,6]) -> %y {
  %b = Neg(%x)
  %a = Reshape(%b, [1,4,6])
  %y = Exp(%a)
}

rules {
  passes(extend_rank)
  unchanged()
  refused("%a: no other ranks of the operators need fewer reshapes")
}
