# SPDX-License-Identifier: Apache-2.0
# Refused: %x: shape is [1,2,3,9], ROPE wants rank 4, static, with an even last dimension

graph main(%x: f32[1,2,3,9], %cos: f32[9], %sin: f32[9]) -> %z {
  %lo = StridedSlice(%x, [0,0,0,0], [1,2,3,5], [1,1,1,1])
  %hi = StridedSlice(%x, [0,0,0,5], [1,2,3,9], [1,1,1,1])
  %n = Neg(%hi)
  %c = Concatenation(%n, %lo) {axis: -1}
  %p = Mul(%x, %cos)
  %q = Mul(%c, %sin)
  %z = Add(%p, %q)
}

rules {
  passes(fuse_rope)
  unchanged()
  refused("even last dimension")
}
