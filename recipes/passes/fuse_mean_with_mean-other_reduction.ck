# SPDX-License-Identifier: Apache-2.0
# Refused: %a: comes from ReduceMax, expected ReduceMin

graph main(%x: f32[2,3,4]) -> %y {
  %a = ReduceMax(%x, [1]) {keep_dims: true}
  %y = ReduceMin(%a, [2]) {keep_dims: true}
}

rules {
  passes(fuse_mean_with_mean)
  unchanged()
  refused("%a: comes from ReduceMax, expected ReduceMin")
}
