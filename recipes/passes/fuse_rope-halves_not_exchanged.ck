# SPDX-License-Identifier: Apache-2.0
# Refused: %hi: is not the first half of %x's last axis

graph main(%x: f32[1,2,3,8], %cos: f32[1,1,1,8], %sin: f32[1,1,1,8]) -> %z {
  %lo = StridedSlice(%x, [0,0,0,0], [1,2,3,4], [1,1,1,1])
  %hi = StridedSlice(%x, [0,0,0,4], [1,2,3,8], [1,1,1,1])
  %n = Neg(%lo)
  %c = Concatenation(%n, %hi) {axis: -1}
  %p = Mul(%x, %cos)
  %q = Mul(%c, %sin)
  %z = Add(%p, %q)
}

rules {
  passes(fuse_rope)
  unchanged()
  refused("half")
}
