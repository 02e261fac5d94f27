# SPDX-License-Identifier: Apache-2.0
# Refused: %x: is broadcast too, from [2,1,4] to [2,3,4]

graph main(%x: f32[2,1,4]) -> %y {
  %c = const f32[1,3,4] uniform(1, 2)
  %y = Add(%x, %c)
}

rules {
  passes(expand_broadcast_const)
  unchanged()
  refused("%x: is broadcast too, from [2,1,4] to [2,3,4]")
}
