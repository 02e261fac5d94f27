# SPDX-License-Identifier: Apache-2.0
# Refused: %p: expected 5, its rows, as addend and as modulus, got 4 and 5

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
  refused("expected 5, its rows, as addend and as modulus, got 4 and 5")
}
