# SPDX-License-Identifier: Apache-2.0
# Done: 1 / sqrt(x)  ==  rsqrt(x).

graph main(%x: f32[2,1,3,1]) -> %z {
  %p = Square(%x)
  %e = Add(%p, 1.0)
  %s = Sqrt(%e)
  %z = Div(1.0, %s)
}

rules {
  passes(fuse_rsqrt)
  order(Square, Add, Rsqrt)
}
