# SPDX-License-Identifier: Apache-2.0
# Refused: %z: keeps the axes [1], along which %x is reduced

graph main(%x: f32[2,3,4,5]) -> %z {
  %y/axis = const i32[1] [1]
  %z/axis = const i32[1] [2]
  %y = Mean(%x, %y/axis) {keep_dims: true} : f32[2,1,4,5]
  %z = Mean(%y, %z/axis) : f32[2,1,5]
}

rules {
  passes(fuse_mean_with_mean)
  unchanged()
  refused("keeps the axes [1], along which %x is reduced")
}
