# SPDX-License-Identifier: Apache-2.0
# Refused: %a: is also read by Neg %v

graph main(%x: f32[4,5]) -> %y, %v {
  %a = Relu(%x)
  %v = Neg(%a)
  %y = Slice(%a, [1, 0], [2, 5])
}

rules {
  passes(backward_slice)
  unchanged()
  refused("%a: is also read by Neg %v")
}
