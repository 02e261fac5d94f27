# SPDX-License-Identifier: Apache-2.0
# Refused: %b: perm is [0, 2, 1], which moves axes

graph main(%x: f32[2,3,3]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [0, 2, 1])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_transpose)
  unchanged()
  refused("perm is [0, 2, 1], which moves")
}
