# SPDX-License-Identifier: Apache-2.0
# Refused: %a: expected static shapes, got [?,1,3]

graph main(%x: f32[?,1,3]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [1, 0, 2])
  %c = Reshape(%b, [-1, 3])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_transpose)
  unchanged()
  refused("expected static shapes")
}
