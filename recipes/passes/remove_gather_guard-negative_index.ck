# SPDX-License-Identifier: Apache-2.0
# Refused: %i: expected indices from 0 to 4

graph main(%p: f32[5,4]) -> %z {
  %i = const i32[3] [0, -1, 4]
  %a/rhs = const i32[] 5
  %m/rhs = const i32[] 5
  %a = Add(%i, %a/rhs) : i32[3]
  %m = FloorMod(%a, %m/rhs) : i32[3]
  %z = Gather(%p, %m) : f32[3,4]
}

rules {
  passes(remove_gather_guard)
  unchanged()
  refused("expected indices from 0 to 4")
}
