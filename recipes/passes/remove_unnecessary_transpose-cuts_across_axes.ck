# SPDX-License-Identifier: Apache-2.0
# Refused: %b: cuts across the axes of %a

graph main(%x: f32[4,6]) -> %y {
  %a = Neg(%x)
  %b = Reshape(%a, [6, 4])
  %c = Transpose(%b, [1, 0])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_transpose)
  unchanged()
  refused("%b: cuts across the axes of %a")
}
