# SPDX-License-Identifier: Apache-2.0
# Refused: %s: expected the last axis of %x alone, got axes [1]

graph main(%x: f32[2,3,4]) -> %z {
  %m = ReduceMax(%x, [2]) {keep_dims: true}
  %d = Sub(%x, %m)
  %e = Exp(%d)
  %s = Sum(%e, [1]) {keep_dims: true}
  %z = Div(%e, %s)
}

rules {
  passes(fuse_softmax)
  unchanged()
  refused("%s: expected the last axis of %x alone, got axes [1]")
}
