# SPDX-License-Identifier: Apache-2.0
# Refused: %z: is f32[2,6], %x is f32[2,3]

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Tile(%x, [1, 2])
  %y = Abs(%z)
}

rules {
  passes(remove_identity)
  unchanged()
  refused("f32[2,6], %x is f32[2,3]")
}
