# SPDX-License-Identifier: Apache-2.0
# Refused: L2_NORMALIZATION divides by 1e-6 or more, not by 1e-3 or more.

graph main(%x: f32[2,3,4]) -> %z {
  %q = Mul(%x, %x)
  %s = Sum(%q, [2]) {keep_dims: true}
  %a = Add(%s, 1e-6)
  %r = Sqrt(%a)
  %z = Div(%x, %r)
}

rules {
  passes(fuse_l2norm)
  unchanged()
  refused("expected an epsilon above 0, at most 1e-12, got 1e-06")
}
