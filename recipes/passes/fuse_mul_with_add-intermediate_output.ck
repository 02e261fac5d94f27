# SPDX-License-Identifier: Apache-2.0
# Refused: %s: is an output of the graph, the picture would lose it

graph main(%x: f32[2,4]) -> %z, %s {
  %m = Mul(%x, 2.0)
  %s = Add(%m, 1.0)
  %z = Mul(%s, 3.0)
}

rules {
  passes(fuse_mul_with_add)
  unchanged()
  refused("%s: is an output of the graph")
}
