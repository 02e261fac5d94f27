# SPDX-License-Identifier: Apache-2.0
# Refused: %m: is an output of the graph, the picture would lose it

graph main(%in: f32[2,40]) -> %y, %m {
  %x = Neg(%in)
  %r = Add(%x, 3.0) {act: RELU6}
  %m = Mul(%x, %r)
  %z = Div(%m, 6.0)
  %y = Neg(%z)
}

rules {
  passes(fuse_hardswish)
  unchanged()
  refused("%m: is an output of the graph")
}
