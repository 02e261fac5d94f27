# SPDX-License-Identifier: Apache-2.0
# Done: gamma * (x - mean(x)) / sqrt(variance(x) + epsilon) + beta  ==  instance_norm(x, gamma, beta).

graph main(%x: f32[2,4,5,3]) -> %n {
  %m = Mean(%x, [1,2]) {keep_dims: true}
  %q = SquaredDifference(%x, %m)
  %v = Mean(%q, [1,2]) {keep_dims: true}
  %d = Sub(%x, %m)
  %a = Add(%v, 1e-3)
  %r = Sqrt(%a)
  %n = Div(%d, %r)
}

rules {
  passes(fuse_instnorm)
  order(InstanceNorm)
}
