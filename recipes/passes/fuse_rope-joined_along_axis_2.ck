# SPDX-License-Identifier: Apache-2.0
# Refused: %x: the halves are joined along axis 2, not the last

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
  refused("joined along axis 2, not the last")
}
