# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected a constant of rank 3, got 2

graph main(%x: f32[2,3,4]) -> %y {
  %c = const f32[3,4] uniform(1, 2)
  %y = Add(%x, %c)
}

rules {
  passes(expand_broadcast_const)
  unchanged()
  refused("expected a constant of rank 3, got 2")
}
