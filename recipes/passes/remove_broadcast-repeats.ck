# SPDX-License-Identifier: Apache-2.0
# Refused: a TILE of rows is no broadcast.

graph main(%x: f32[4,8], %y: f32[2,8]) -> %z {
  %b = Tile(%y, [2, 1])
  %z = Mul(%x, %b)
}

rules {
  passes(remove_broadcast)
  unchanged()
  refused("%b: expected repeated dimensions of 1, got f32[2,8] and [2, 1]")
}
