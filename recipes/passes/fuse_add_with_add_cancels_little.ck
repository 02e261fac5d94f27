# SPDX-License-Identifier: Apache-2.0
# Done: 64.0 is 64 times the sum of both addends, the most that is allowed.

graph main(%x: f32[2,4]) -> %z {
  %m = Add(%x, 64.0)
  %z = Sub(%m, 63.0)
}

rules {
  passes(fuse_add_with_add)
  total(1)
}
