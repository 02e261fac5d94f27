# SPDX-License-Identifier: Apache-2.0
# Done: of equal pure operators on equal operands the first stays, and all users read its results.

graph main(%x: f32[2], %z: f32[2]) -> %y {
  %a = Add(%x, %z)
  %b = Add(%z, %x)
  %y = Pow(%a, %b)
}

rules {
  passes(common_subexpression_elimination)
  order(Add, Pow)
}
