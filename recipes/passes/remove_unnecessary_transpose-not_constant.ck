# SPDX-License-Identifier: Apache-2.0
# Refused: %p: is not constant, expected const

graph main(%x: f32[2,2], %z: f32[2]) -> %y {
  %v, %p = TopKV2(%z, 2)
  %a = Neg(%x)
  %y = Transpose(%a, %p) : f32[2,2]
}

rules {
  passes(remove_unnecessary_transpose)
  unchanged()
  refused("%p: is not constant")
}
