# SPDX-License-Identifier: Apache-2.0
# Refused: the unknown dimension gets a border, although x and the result have one type.

graph main(%x: f32[?,3]) -> %y {
  %a = Neg(%x)
  %b = Pad(%a, [[1, 1], [0, 0]])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_pad)
  unchanged()
  refused("%b/paddings: expected only 0, got 1")
}
