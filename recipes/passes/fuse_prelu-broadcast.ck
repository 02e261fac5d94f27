# SPDX-License-Identifier: Apache-2.0
# Refused: %a/rhs: broadcasting with its shape [1,1,4] may change the shape [2,4] of %x

graph main(%x: f32[2,4]) -> %z {
  %r = Relu(%x)
  %n = Abs(%x)
  %d = Sub(%x, %n)
  %a = Mul(%d, [[[0.1, 0.2, 0.3, 0.4]]])
  %h = Mul(%a, 0.5)
  %z = Add(%r, %h)
}

rules {
  passes(fuse_prelu)
  unchanged()
  refused("broadcasting with its shape [1,1,4] may change the shape [2,4] of %x")
}
