# SPDX-License-Identifier: Apache-2.0
# Refused: %c: does not keep the order of the elements

graph main(%x: f32[2,3,4]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [1, 0, 2])
  %c = Reshape(%b, [6, 4])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_transpose)
  unchanged()
  refused("does not keep the order of the elements")
}
