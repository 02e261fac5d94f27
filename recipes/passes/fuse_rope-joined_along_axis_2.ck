# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected the halves to be joined along the last axis, got axis 2

graph main(%x: f32[1,1,8,8], %cos: f32[8], %sin: f32[8]) -> %z {
  %lo = Slice(%x, [0,0,0,0], [1,1,4,8])
  %hi = Slice(%x, [0,0,4,0], [1,1,4,8])
  %n = Neg(%hi)
  %c = Concatenation(%n, %lo) {axis: 2}
  %p = Mul(%x, %cos)
  %q = Mul(%c, %sin)
  %z = Add(%p, %q)
}

rules {
  passes(fuse_rope)
  unchanged()
  refused("expected the halves to be joined along the last axis, got axis 2")
}
