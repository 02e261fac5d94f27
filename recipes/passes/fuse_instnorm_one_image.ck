# SPDX-License-Identifier: Apache-2.0
# Done: the mean may also be over a batch of one image: PyTorch writes an instance norm as such a batch norm.

graph main(%x: f32[1,4,5,3]) -> %n {
  %m = Mean(%x, [0,1,2]) {keep_dims: true}
  %d = Sub(%x, %m)
  %q = Mul(%d, %d)
  %v = Mean(%q, [0,1,2]) {keep_dims: true}
  %a = Add(%v, 1e-3)
  %r = Rsqrt(%a)
  %n = Mul(%d, %r)
}

rules {
  passes(fuse_instnorm)
  order(InstanceNorm)
}
