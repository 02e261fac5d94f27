# SPDX-License-Identifier: Apache-2.0
# Refused: %b: has shape [3,2], %a has [2,3]

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = Reshape(%a, [3, 2])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_reshape)
  unchanged()
  refused("%b: has shape [3,2], %a has [2,3]")
}
