# SPDX-License-Identifier: Apache-2.0
# Done: the halves change places, and the sines of the first half are negative in place of that half.

graph main(%x: f32[1,2,3,8], %cos: f32[1,1,1,8]) -> %z {
  %lo,
  %hi = Split(3, %x) {num_splits: 2}
  %c = Concatenation(%hi, %lo) {axis: -1}
  %p = Mul(%x, %cos)
  %q = Mul(%c, [[[[-0.1, -0.2, -0.3, -0.4, 0.1, 0.2, 0.3, 0.4]]]])
  %z = Add(%p, %q)
}

rules {
  passes(fuse_rope)
  order(RoPE)
}
