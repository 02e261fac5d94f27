# SPDX-License-Identifier: Apache-2.0
# Refused: is not known before the run

graph main(%x: f32[?,3,4]) -> %y {
  %c = const f32[1,3,4] uniform(1, 2)
  %y = Add(%x, %c)
}

rules {
  passes(expand_broadcast_const)
  unchanged()
  refused("%y has shape [?,3,4], expected a static shape")
}
