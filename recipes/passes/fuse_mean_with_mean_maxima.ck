# SPDX-License-Identifier: Apache-2.0
# Done: the maximum along one axis, then along another.

graph main(%x: f32[2,3,4,5]) -> %y {
  %a = ReduceMax(%x, [3])
  %y = ReduceMax(%a, [-1])
}

rules {
  passes(fuse_mean_with_mean)
  order(ReduceMax)
}
