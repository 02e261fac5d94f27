# SPDX-License-Identifier: Apache-2.0
# Refused: the perm moves axes, although x and the result have one type.

graph main(%x: f32[2,3,3]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [0, 2, 1])
  %y = Neg(%b)
}

rules {
  passes(remove_redundant_transpose)
  unchanged()
  refused("%b: expected a perm that moves no axis, got [0, 2, 1]")
}
