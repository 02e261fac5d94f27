# SPDX-License-Identifier: Apache-2.0
# Refused: if the unknown dimension is 1, the broadcast gives the result its shape.

graph main(%x: f32[?,8], %y: f32[1,8]) -> %z {
  %b = BroadcastTo(%y, [4, 8])
  %z = Add(%x, %b)
}

rules {
  passes(remove_broadcast)
  unchanged()
  refused("%x has shape [?,8], expected a static shape")
}
