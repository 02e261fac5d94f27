# SPDX-License-Identifier: Apache-2.0
# Refused: the unknown dimension of x may be 1, so it may be broadcast.

graph main(%in: f32[?,4]) -> %y {
  %x = Neg(%in)
  %z = BroadcastTo(%x, [2, 4])
  %y = Abs(%z)
}

rules {
  passes(remove_identity)
  unchanged()
  refused("%x: expected a static shape, got f32[?,4]")
}
