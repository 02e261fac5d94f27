# SPDX-License-Identifier: Apache-2.0
# Refused: %y: has rank 3, the constant has rank 2

graph main(%x: f32[2,3,4]) -> %y {
  %c = const f32[3,4] uniform(1, 2)
  %y = Add(%x, %c)
}

rules {
  passes(expand_broadcast_const)
  unchanged()
  refused("%y: has rank 3, the constant has rank 2")
}
