# SPDX-License-Identifier: Apache-2.0
# Done: the constant sines of even and odd positions get opposite signs.

graph main(%x: f32[1,4,5,6]) -> %y {
  %cos = const f32[5,6] gaussian(0, 1)
  %sin = const f32[5,6] gaussian(0, 1)
  %r = Reshape(%x, [1, 4, 5, 3, 2])
  %even, %odd = Unpack(%r) {num: 2, axis: 4}
  %n = Neg(%odd)
  %c = Pack(%n, %even) {values_count: 2, axis: 4}
  %t = Reshape(%c, [1, 4, 5, 6])
  %p = Mul(%x, %cos)
  %q = Mul(%t, %sin)
  %y = Add(%p, %q)
}

rules {
  passes(fuse_neg_with_factor)
  order(Reshape, Unpack, Pack, Reshape, Mul, Mul, Add)
}
