# SPDX-License-Identifier: Apache-2.0
# Refused: %p: has 0 rows, expected 1 or more

graph main(%i: i32[0], %p: f32[0,4]) -> %z {
  %l = Less(%i, 0) : bool[0]
  %a = Add(%i, 0) : i32[0]
  %s = SelectV2(%l, %a, %i) : i32[0]
  %z = Gather(%p, %s) : f32[0,4]
}

rules {
  passes(fuse_gather_guard)
  unchanged()
  refused("%p: has 0 rows, expected 1 or more")
}
