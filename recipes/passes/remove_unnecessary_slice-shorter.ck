# SPDX-License-Identifier: Apache-2.0
# Refused: %b: expected all 3 of axis 1, got the size 2 from index 0

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = Slice(%a, [0, 0], [2, 2])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_slice)
  unchanged()
  refused("expected all 3 of axis 1, got the size 2 from index 0")
}
