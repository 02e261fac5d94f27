# SPDX-License-Identifier: Apache-2.0
# Done: LOG_SOFTMAX as the exporter of LiteRT writes it.

graph main(%x: f32[2,3,4]) -> %z {
  %r = ReduceMax(%x, [-1])
  %l = Maximum(%r, -inf)
  %m = Reshape(%l, [2, 3, 1])
  %d = Sub(%x, %m)
  %e = Exp(%d)
  %s = Sum(%e, [2]) {keep_dims: true}
  %g = Log(%s)
  %z = Sub(%d, %g)
}

rules {
  passes(fuse_softmax)
  ops(LogSoftmax: 1, Sub: 0, Exp: 0)
}
