# SPDX-License-Identifier: Apache-2.0
# Refused: the comparison is not with 0

graph main(%i: i32[2,3]) -> %z {
  %p = const f32[5,4] gaussian(0, 1)
  %l = Less(%i, 1) : bool[2,3]
  %a = Add(%i, 5) : i32[2,3]
  %s = SelectV2(%l, %a, %i) : i32[2,3]
  %z = Gather(%p, %s) : f32[2,3,4]
}

rules {
  passes(fuse_gather_guard)
  unchanged()
}
