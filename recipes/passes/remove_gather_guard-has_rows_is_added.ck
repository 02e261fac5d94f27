# SPDX-License-Identifier: Apache-2.0
# Refused: %p: has 5 rows, 4 is added and 5 the modulus

graph main(%p: f32[5,4], %i: i32[3]) -> %z {
  %a/rhs = const i32[] 4
  %m/rhs = const i32[] 5
  %a = Add(%i, %a/rhs) : i32[3]
  %m = FloorMod(%a, %m/rhs) : i32[3]
  %z = Gather(%p, %m) : f32[3,4]
}

rules {
  passes(remove_gather_guard)
  unchanged()
  refused("%p: has 5 rows, 4 is added and 5 the modulus")
}
