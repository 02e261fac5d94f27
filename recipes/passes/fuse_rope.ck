# SPDX-License-Identifier: Apache-2.0
# Done: x * cos + rotate_half(x) * sin  ==  rope(x, sin, cos), for circle and one row of tables.

graph main(%x: f32[1,2,3,8], %cos: f32[1,1,1,8], %sin: f32[1,1,1,8]) -> %z {
  %lo,
  %hi = Split(3, %x) {num_splits: 2}
  %n = Neg(%hi)
  %c = Concatenation(%n, %lo) {axis: -1}
  %p = Mul(%x, %cos)
  %q = Mul(%c, %sin)
  %z = Add(%p, %q)
}

rules {
  passes(fuse_rope)
  order(RoPE)
}
