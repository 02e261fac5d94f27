# SPDX-License-Identifier: Apache-2.0
# Refused: %sin: expected a row of 8, got shape [1]

graph main(%x: f32[1,2,3,8], %cos: f32[1], %sin: f32[1]) -> %z {
  %lo = StridedSlice(%x, [0,0,0,0], [1,2,3,4], [1,1,1,1])
  %hi = StridedSlice(%x, [0,0,0,4], [1,2,3,8], [1,1,1,1])
  %n = Neg(%hi)
  %c = Concatenation(%n, %lo) {axis: -1}
  %p = Mul(%x, %cos)
  %q = Mul(%c, %sin)
  %z = Add(%p, %q)
}

rules {
  passes(fuse_rope)
  unchanged()
  refused("expected a row of 8, got shape [1]")
}
