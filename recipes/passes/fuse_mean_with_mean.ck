# SPDX-License-Identifier: Apache-2.0
# Done: mean(mean(x, a), b) == mean(x, a and b).

graph main(%x: f32[2,3,4,5]) -> %z {
  %y/axis = const i32[1] [1]
  %z/axis = const i32[1] [2]
  %y = Mean(%x, %y/axis) {keep_dims: true} : f32[2,1,4,5]
  %z = Mean(%y, %z/axis) {keep_dims: true} : f32[2,1,1,5]
}

rules {
  passes(fuse_mean_with_mean)
  order(Mean)
}
