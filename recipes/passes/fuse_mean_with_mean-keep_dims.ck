# SPDX-License-Identifier: Apache-2.0
# Refused: %y: keep_dims is False, expected True

graph main(%x: f32[2,3,4,5]) -> %z {
  %y/axis = const i32[1] [1]
  %z/axis = const i32[1] [1]
  %y = Mean(%x, %y/axis) : f32[2,4,5]
  %z = Mean(%y, %z/axis) {keep_dims: true} : f32[2,1,5]
}

rules {
  passes(fuse_mean_with_mean)
  unchanged()
  refused("%y: keep_dims is False, expected True")
}
