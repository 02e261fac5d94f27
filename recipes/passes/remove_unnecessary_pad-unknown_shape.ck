# SPDX-License-Identifier: Apache-2.0
# Refused: %a has shape [?,4], expected a static shape

graph main(%x: f32[?,4]) -> %y {
  %a = Neg(%x)
  %b = Pad(%a, [[1, 2], [2, 1]])
  %c = Slice(%b, [1, 2], [3, 4])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_pad)
  unchanged()
  refused("expected a static shape")
}
