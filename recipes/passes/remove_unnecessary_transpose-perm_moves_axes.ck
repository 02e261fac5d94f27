# SPDX-License-Identifier: Apache-2.0
# Refused: %b: expected a perm that moves no axis, got [0, 2, 1]

graph main(%x: f32[2,3,3]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [0, 2, 1])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_transpose)
  unchanged()
  refused("expected a perm that moves no axis, got [0, 2, 1]")
}
