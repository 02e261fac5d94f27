# SPDX-License-Identifier: Apache-2.0
# Refused: %c: does not keep the order of the elements

graph main(%x: f32[2,6]) -> %y {
  %a = Neg(%x)
  %b = Reshape(%a, [4, 3])
  %c = Transpose(%b, [1, 0])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_transpose)
  unchanged()
  refused("does not keep the order of the elements")
}
