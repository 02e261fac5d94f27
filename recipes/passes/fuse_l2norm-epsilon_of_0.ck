# SPDX-License-Identifier: Apache-2.0
# Refused: without an epsilon the quotient of a row of zeros is NaN; L2_NORMALIZATION gives zeros.

graph main(%x: f32[2,3,4]) -> %z {
  %q = Mul(%x, %x)
  %s = Sum(%q, [2]) {keep_dims: true}
  %a = Add(%s, 0.0)
  %r = Sqrt(%a)
  %z = Div(%x, %r)
}

rules {
  passes(fuse_l2norm)
  unchanged()
  refused("expected an epsilon above 0, at most 1e-12, got 0")
}
