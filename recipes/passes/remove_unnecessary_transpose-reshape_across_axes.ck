# SPDX-License-Identifier: Apache-2.0
# Refused: %b: splits or merges axes of %a irregularly

graph main(%x: f32[4,6]) -> %y {
  %a = Neg(%x)
  %b = Reshape(%a, [6, 4])
  %c = Transpose(%b, [1, 0])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_transpose)
  unchanged()
  refused("splits or merges axes of %a irregularly")
}
