# SPDX-License-Identifier: Apache-2.0
# Refused: %a has shape [?,1,3], expected a static shape

graph main(%x: f32[?,1,3]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [1, 0, 2])
  %c = Reshape(%b, [-1, 3])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_transpose)
  unchanged()
  refused("%a has shape [?,1,3], expected a static shape")
}
