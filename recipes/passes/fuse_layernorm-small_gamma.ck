# SPDX-License-Identifier: Apache-2.0
# Refused: %f: expected the shape of %x, [2,3,8], got [2,3,1]; the operators on smaller values are cheaper

graph main(%x: f32[2,3,8]) -> %z {
  %g = const f32[3,1] uniform(0.5, 2)
  %b = const f32[3,1] gaussian(0, 1)
  %m = Mean(%x, [-1]) {keep_dims: true}
  %q = SquaredDifference(%x, %m)
  %v = Mean(%q, [-1]) {keep_dims: true}
  %a = Add(%v, 0.001)
  %r = Rsqrt(%a)
  %f = Mul(%r, %g)
  %p = Mul(%x, %f)
  %o = Mul(%m, %f)
  %h = Sub(%b, %o)
  %z = Add(%p, %h)
}

rules {
  passes(fuse_layernorm)
  unchanged()
  refused("%f: expected the shape of %x, [2,3,8], got [2,3,1]; the operators on smaller values are cheaper")
}
