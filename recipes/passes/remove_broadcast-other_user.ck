# SPDX-License-Identifier: Apache-2.0
# Refused: the concatenation needs the broadcast.

graph main(%x: f32[4,8], %y: f32[1,8]) -> %z, %c {
  %b = BroadcastTo(%y, [4, 8])
  %z = Add(%x, %b)
  %c = Concatenation(%b, %x) {axis: 0}
}

rules {
  passes(remove_broadcast)
  unchanged()
  refused("%b: is also read by Concatenation %c")
}
