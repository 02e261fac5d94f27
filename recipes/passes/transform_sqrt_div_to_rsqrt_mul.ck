# SPDX-License-Identifier: Apache-2.0
# Done: a / sqrt(x)  ==  a * rsqrt(x); fuse_rsqrt handles 1 / sqrt(x).

graph main(%x: f32[2,1,3,1], %o: f32[2,1,3,1]) -> %z {
  %p = Square(%x)
  %e = Add(%p, 1.0)
  %s = Sqrt(%e)
  %z = Div(%o, %s) {act: RELU}
}

rules {
  passes(transform_sqrt_div_to_rsqrt_mul)
  order(Square, Add, Rsqrt, Mul)
}
