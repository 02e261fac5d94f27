# SPDX-License-Identifier: Apache-2.0
# Refused: %p: has 5 rows, but the number added to i is 4

graph main(%i: i32[2,3]) -> %z {
  %p = const f32[5,4] gaussian(0, 1)
  %l = Less(%i, 0) : bool[2,3]
  %a = Add(%i, 4) : i32[2,3]
  %s = SelectV2(%l, %a, %i) : i32[2,3]
  %z = Gather(%p, %s) : f32[2,3,4]
}

rules {
  passes(fuse_gather_guard)
  unchanged()
  refused("has 5 rows, but the number added to i is 4")
}
