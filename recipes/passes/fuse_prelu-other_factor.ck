# SPDX-License-Identifier: Apache-2.0
# Refused: %h/rhs: expected the constant 0.5

graph main(%x: f32[2,4]) -> %z {
  %r = Relu(%x)
  %n = Abs(%x)
  %d = Sub(%x, %n)
  %a = Mul(%d, [0.1, 0.2, 0.3, 0.4])
  %h = Mul(%a, 0.25)
  %z = Add(%r, %h)
}

rules {
  passes(fuse_prelu)
  unchanged()
  refused("expected the constant 0.5")
}
