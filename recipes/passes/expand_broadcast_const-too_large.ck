# SPDX-License-Identifier: Apache-2.0
# Refused: %y: would have 67239936 bytes, at most 67108864

graph main(%x: f32[1,2048]) -> %z {
  %c = const f32[1,2048] uniform(1, 2)
  %b = Tile(%x, [8208, 1])
  %y = Add(%b, %c)
  %z = ReduceMax(%y, [0])
}

rules {
  passes(expand_broadcast_const)
  unchanged()
  refused("%y: would have 67239936 bytes, at most 67108864")
}
