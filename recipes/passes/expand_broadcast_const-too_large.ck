# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected a result of at most 67108864 bytes, got 67239936

graph main(%x: f32[1,2048]) -> %z {
  %c = const f32[1,2048] uniform(1, 2)
  %b = Tile(%x, [8208, 1])
  %y = Add(%b, %c)
  %z = ReduceMax(%y, [0])
}

rules {
  passes(expand_broadcast_const)
  unchanged()
  refused("expected a result of at most 67108864 bytes, got 67239936")
}
