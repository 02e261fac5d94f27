# SPDX-License-Identifier: Apache-2.0
# Refused: %z: is f32[4,2,3], %x is f32[2,3]

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = BroadcastTo(%x, [4, 2, 3])
  %y = Abs(%z)
}

rules {
  passes(remove_identity)
  unchanged()
  refused("f32[4,2,3], %x is f32[2,3]")
}
