# SPDX-License-Identifier: Apache-2.0
# The divisor of a normalization: the Reshape stands behind epsilon and root.

graph main(%x: f32[1,6,4]) -> %z {
  %q = Mul(%x, %x)
  %y = Mean(%q, [2])
  %a = Add(%y, 0.001)
  %r = Rsqrt(%a)
  %z = Reshape(%r, [1, 6, 1])
}

rules {
  passes(fuse_reshape_with_mean)
  order(Mul, Mean, Add, Rsqrt)
}
