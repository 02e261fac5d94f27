# SPDX-License-Identifier: Apache-2.0
# Refused: %b/paddings: holds 1, 0 is wanted

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = Pad(%a, [[0, 0], [0, 1]])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_pad)
  unchanged()
  refused("holds 1, 0 is wanted")
}
