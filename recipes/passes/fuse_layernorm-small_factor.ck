# SPDX-License-Identifier: Apache-2.0
# Refused: %f: expected the shape of %x, other than that of %r

graph main(%x: f32[2,3,8], %a: f32[2,3,1]) -> %z {
  %b = Abs(%a)
  %c = Add(%b, 0.1)
  %r = Rsqrt(%c)
  %f = Mul(%r, 0.5)
  %z = Mul(%x, %f)
}

rules {
  passes(fuse_layernorm)
  unchanged()
  refused("expected the shape of %x, other than that of %r")
}
