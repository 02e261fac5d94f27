# SPDX-License-Identifier: Apache-2.0
# Refused: neither operand of the sum has the shape of the result.

graph main(%x: f32[4,8], %y: f32[1,8]) -> %z {
  %b = BroadcastTo(%y, [2, 4, 8])
  %z = Add(%x, %b)
}

rules {
  passes(remove_broadcast)
  unchanged()
  refused("%z: is f32[2,4,8], without the broadcast it would have shape [4,8]")
}
