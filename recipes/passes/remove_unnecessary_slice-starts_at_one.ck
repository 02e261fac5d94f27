# SPDX-License-Identifier: Apache-2.0
# Refused: %b: expected all 2 of axis 0, got the size -1 from index 1

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = Slice(%a, [1, 0], [-1, 3])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_slice)
  unchanged()
  refused("expected all 2 of axis 0, got the size -1 from index 1")
}
