# SPDX-License-Identifier: Apache-2.0
# Refused: the unknown dimension is doubled, although x and the result have one type.

graph main(%in: f32[?,4]) -> %y {
  %x = Neg(%in)
  %z = Tile(%x, [2, 1])
  %y = Abs(%z)
}

rules {
  passes(remove_identity)
  unchanged()
  refused("%x: expected a static shape, got f32[?,4]")
}
