# SPDX-License-Identifier: Apache-2.0
# Done: Of equal pure operators on equal operands the first stays, and its results serve all readers.

graph main(%x: f32[2], %z: f32[2]) -> %y {
  %a = Add(%x, %z)
  %b = Add(%z, %x)
  %y = Pow(%a, %b)
}

rules {
  passes(common_subexpression_elimination)
  order(Add, Pow)
}
