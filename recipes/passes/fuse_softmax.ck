# SPDX-License-Identifier: Apache-2.0
# Done: the form of exporters that have no operator for it.

graph main(%x: f32[2,3,4]) -> %z {
  %m = ReduceMax(%x, [2]) {keep_dims: true}
  %d = Sub(%x, %m)
  %e = Exp(%d)
  %s = Sum(%e, [2]) {keep_dims: true}
  %z = Div(%e, %s)
}

rules {
  passes(fuse_softmax)
  order(ReduceMax, Softmax)
}
