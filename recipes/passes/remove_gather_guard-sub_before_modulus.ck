# SPDX-License-Identifier: Apache-2.0
# Refused: %a: comes from Sub, expected Add

graph main(%p: f32[5,4], %i: i32[3]) -> %z {
  %a/rhs = const i32[] 5
  %m/rhs = const i32[] 5
  %a = Sub(%i, %a/rhs) : i32[3]
  %m = FloorMod(%a, %m/rhs) : i32[3]
  %z = Gather(%p, %m) : f32[3,4]
}

rules {
  passes(remove_gather_guard)
  unchanged()
  refused("comes from Sub, expected Add")
}
