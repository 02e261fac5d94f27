# SPDX-License-Identifier: Apache-2.0
# Refused: %n/lhs: expected the constant 0.0

graph main(%x: f32[2,3]) -> %y {
  %alpha = const f32[3] [0.25, 0.5, 2.0]
  %r = Relu(%x)
  %n = Minimum(1.0, %x)
  %a = Mul(%n, %alpha)
  %y = Add(%r, %a)
}

rules {
  passes(fuse_prelu)
  unchanged()
  refused("%n/lhs: expected the constant 0.0")
}
