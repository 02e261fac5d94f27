# SPDX-License-Identifier: Apache-2.0
# Refused: %a: may be broadcast along an unknown dimension

graph main(%x: f32[?,4], %v: f32[?,4]) -> %y {
  %a = Abs(%x)
  %b = Abs(%v)
  %s = SelectV2([true], %a, %b) : f32[?,4]
  %y = Neg(%s)
}

rules {
  passes(remove_identity)
  unchanged()
  refused("%a: may be broadcast along an unknown dimension")
}
