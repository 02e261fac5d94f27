# SPDX-License-Identifier: Apache-2.0
# Refused: %y: would have 67239936 bytes, at most 67108864

graph main(%x: f32[8208,2048]) -> %y {
  %c = const f32[1,2048] uniform(1, 2)
  %y = Add(%x, %c)
}

rules {
  passes(expand_broadcast_const)
  unchanged()
  refused("%y: would have 67239936 bytes, at most 67108864")
}
