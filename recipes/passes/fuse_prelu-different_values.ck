# SPDX-License-Identifier: Apache-2.0
# Refused: %r: expected the same value in two places

graph main(%x: f32[2,4]) -> %z {
  %r = Relu(%x)
  %n = Abs(%r)
  %d = Sub(%x, %n)
  %a = Mul(%d, [0.1, 0.2, 0.3, 0.4])
  %h = Mul(%a, 0.5)
  %z = Add(%r, %h)
}

rules {
  passes(fuse_prelu)
  unchanged()
  refused("the same value in two places")
}
