# SPDX-License-Identifier: Apache-2.0
# Done: F.normalize of PyTorch.

graph main(%x: f32[2,3,4]) -> %z {
  %q = Mul(%x, %x)
  %s = Sum(%q, [2]) {keep_dims: true}
  %r = Pow(%s, 0.5)
  %a = Maximum(%r, 1e-12)
  %z = Div(%x, %a)
}

rules {
  passes(fuse_l2norm)
  order(L2Normalization)
}
