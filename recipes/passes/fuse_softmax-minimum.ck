# SPDX-License-Identifier: Apache-2.0
# Refused: exp(x - min(x)) may be infinite, where SOFTMAX is not.

graph main(%x: f32[2,3,4]) -> %z {
  %m = ReduceMin(%x, [2]) {keep_dims: true}
  %d = Sub(%x, %m)
  %e = Exp(%d)
  %s = Sum(%e, [2]) {keep_dims: true}
  %z = Div(%e, %s)
}

rules {
  passes(fuse_softmax)
  unchanged()
  refused("%m: comes from ReduceMin, expected the maximum of each row of %x")
}
