# SPDX-License-Identifier: Apache-2.0
# Done: a TILE of dimensions of 1 is a broadcast, also for an operand on the left.

graph main(%x: f32[2,4,8], %y: f32[1,4,1]) -> %z {
  %b = Tile(%y, [2, 1, 8])
  %z = Less(%b, %x)
}

rules {
  passes(remove_broadcast)
  order(Less)
}
