# SPDX-License-Identifier: Apache-2.0
# Refused: %a: an input keeps its shape

graph main(%x: f32[1,4,6]) -> %y {
  %a = Reshape(%x, [1,4,1,6])
  %y = Neg(%a)
}

rules {
  passes(extend_rank)
  unchanged()
  refused("%a: an input keeps its shape")
}
