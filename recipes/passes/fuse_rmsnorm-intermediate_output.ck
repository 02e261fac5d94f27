# SPDX-License-Identifier: Apache-2.0
# Refused: %m: is an output of the graph, the picture would lose it

graph main(%x: f32[2,3,8]) -> %z, %m {
  %s = Mul(%x, %x)
  %m = Mean(%s, [-1]) {keep_dims: true}
  %a = Add(%m, 1e-6)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(fuse_rmsnorm)
  unchanged()
  refused("%m: is an output of the graph")
}
