# SPDX-License-Identifier: Apache-2.0
# Done: SOFTMAX itself subtracts the maximum.

graph main(%x: f32[2,3,4]) -> %z {
  %m = ReduceMax(%x, [2]) {keep_dims: true}
  %d = Sub(%x, %m)
  %z = Softmax(%d) {beta: 1.0}
}

rules {
  passes(fuse_softmax)
  ops(Softmax: 1, Sub: 0)
}
