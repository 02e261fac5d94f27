# SPDX-License-Identifier: Apache-2.0
# Refused: %y: the constant is broadcast along 0 dimensions, 1 is wanted

graph main(%x: f32[2,3,4]) -> %y {
  %c = const f32[2,3,4] uniform(1, 2)
  %y = Add(%x, %c)
}

rules {
  passes(expand_broadcast_const)
  unchanged()
  refused("%y: the constant is broadcast along 0 dimensions, 1 is wanted")
}
