# SPDX-License-Identifier: Apache-2.0
# Refused: the file does not state the shape of the result, which the new Reshape would need as a constant.

graph main(%x: f32[1,6]) -> %y {
  %a = Neg(%x)
  %b = Reshape(%a, [2,1,3])
  %c = Transpose(%b, [1,0,2])  : f32[?,?,?]
  %y = Neg(%c)                 : f32[?,?,?]
}

rules {
  passes(remove_unnecessary_transpose)
  unchanged()
  refused("%c has shape [?,?,?], expected a static shape")
}
