# SPDX-License-Identifier: Apache-2.0
# Done: tf.math.l2_normalize, in which epsilon limits the square of the norm.

graph main(%x: f32[2,3,4]) -> %z {
  %q = Mul(%x, %x)
  %s = Sum(%q, [2]) {keep_dims: true}
  %a = Maximum(%s, 1e-12)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(fuse_l2norm)
  order(L2Normalization)
}
