# SPDX-License-Identifier: Apache-2.0
# Done: the factor goes into the gamma of a normalization.

graph main(%x: f32[1,2,5,4], %k: f32[1,2,4,5]) -> %y {
  %q = RmsNorm(%x, [0.5, 1.5, -1.0, 2.0]) {epsilon: 1e-06}
  %m = BatchMatMul(%q, %k)
  %y = Mul(%m, 0.5)
}

rules {
  passes(forward_number)
  order(RmsNorm, BatchMatMul)
}
