# SPDX-License-Identifier: Apache-2.0
# Refused: %b: expected the shape of %a, [2,3], got [3,2]

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = Reshape(%a, [3, 2])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_reshape)
  unchanged()
  refused("expected the shape of %a, [2,3], got [3,2]")
}
