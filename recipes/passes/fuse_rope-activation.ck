# SPDX-License-Identifier: Apache-2.0
# Refused: %z: act is RELU, expected NONE

graph main(%x: f32[1,2,3,8], %cos: f32[1,1,1,8], %sin: f32[1,1,1,8]) -> %z {
  %lo = StridedSlice(%x, [0,0,0,0], [1,2,3,4], [1,1,1,1])
  %hi = StridedSlice(%x, [0,0,0,4], [1,2,3,8], [1,1,1,1])
  %n = Neg(%hi)
  %c = Concatenation(%n, %lo) {axis: -1}
  %p = Mul(%x, %cos)
  %q = Mul(%c, %sin)
  %z = Add(%p, %q) {act: RELU}
}

rules {
  passes(fuse_rope)
  unchanged()
  refused("%z: act is RELU")
}
