# SPDX-License-Identifier: Apache-2.0
# Refused: %b/paddings: expected only 0, got 1

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = Pad(%a, [[0, 0], [0, 1]])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_pad)
  unchanged()
  refused("expected only 0, got 1")
}
