# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected a constant broadcast along 1 dimension, got 0

graph main(%x: f32[2,3,4]) -> %y {
  %c = const f32[2,3,4] uniform(1, 2)
  %y = Add(%x, %c)
}

rules {
  passes(expand_broadcast_const)
  unchanged()
  refused("expected a constant broadcast along 1 dimension, got 0")
}
