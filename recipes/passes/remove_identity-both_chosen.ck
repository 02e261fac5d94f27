# SPDX-License-Identifier: Apache-2.0
# Refused: the condition chooses elements of both operands.

graph main(%x: f32[2], %v: f32[2]) -> %y {
  %a = Abs(%x)
  %b = Abs(%v)
  %s = SelectV2([true, false], %a, %b)
  %y = Neg(%s)
}

rules {
  passes(remove_identity)
  unchanged()
  refused("%s: not every element of the condition is true")
}
