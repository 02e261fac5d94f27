# SPDX-License-Identifier: Apache-2.0
# Refused: %s: expected the last axis of %x alone, got axes [1]

graph main(%x: f32[2,3,4]) -> %z {
  %q = Mul(%x, %x)
  %s = Sum(%q, [[1]]) {keep_dims: true}
  %r = Sqrt(%s)
  %a = Maximum(%r, 1e-12)
  %z = Div(%x, %a)
}

rules {
  passes(fuse_l2norm)
  unchanged()
  refused("%s: expected the last axis of %x alone, got axes [1]")
}
