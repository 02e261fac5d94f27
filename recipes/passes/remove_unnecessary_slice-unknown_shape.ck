# SPDX-License-Identifier: Apache-2.0
# Refused: %b: expected all elements of axis 0, got the size 2 from index 0

graph main(%x: f32[?,3]) -> %y {
  %a = Neg(%x)
  %b = Slice(%a, [0, 0], [2, 3])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_slice)
  unchanged()
  refused("expected all elements of axis 0, got the size 2 from index 0")
}
