# SPDX-License-Identifier: Apache-2.0
# Refused: the first row is cut off, although x and the result have one type.

graph main(%x: f32[?,3]) -> %y {
  %a = Neg(%x)
  %b = Slice(%a, [1, 0], [-1, 3])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_slice)
  unchanged()
  refused("from index 1")
}
