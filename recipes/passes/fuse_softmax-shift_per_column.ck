# SPDX-License-Identifier: Apache-2.0
# Refused: %m: expected one number for each row of %x, f32[2,3,4], got f32[2,1,4]

graph main(%x: f32[2,3,4]) -> %z {
  %m = ReduceMax(%x, [[1]]) {keep_dims: true}
  %d = Sub(%x, %m)
  %z = Softmax(%d) {beta: 1.0}
}

rules {
  passes(fuse_softmax)
  unchanged()
  refused("%m: expected one number for each row of %x, f32[2,3,4], got f32[2,1,4]")
}
