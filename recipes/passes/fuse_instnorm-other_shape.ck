# SPDX-License-Identifier: Apache-2.0
# Refused: %y: has shape [2,4,15], the rewrite gives [2,4,5,3]

graph main(%x: f32[2,4,5,3]) -> %y {
  %s = Reshape(%x, [-1,4,5,3,1])
  %m = Mean(%s, [1,2]) {keep_dims: true}
  %e = Sub(%s, %m)
  %q = Square(%e)
  %v = Mean(%q, [1,2]) {keep_dims: true}
  %a = Add(%v, 1e-3)
  %r = Rsqrt(%a)
  %f = Mul(%r, [[[[[0.5], [1.0], [2.0]]]]])
  %p = Mul(%s, %f)
  %i = Neg(%m)
  %o = Mul(%i, %f)
  %h = Add([[[[[0.5], [1.0], [2.0]]]]], %o)
  %z = Add(%p, %h)
  %y = Reshape(%z, [2,4,15])
}

rules {
  passes(fuse_instnorm)
  unchanged()
  refused("%y: has shape [2,4,15], the rewrite gives [2,4,5,3]")
}
