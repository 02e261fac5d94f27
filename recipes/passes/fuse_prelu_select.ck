# SPDX-License-Identifier: Apache-2.0
# Done: x where x is positive, else alpha * x, as PyTorch defines it, becomes PRELU.

graph main(%x: f32[2,3]) -> %y {
  %alpha = const f32[3] [-0.25, 0.5, -2.0]
  %c = Greater(%x, 0.0)
  %n = Mul(%alpha, %x)
  %y = SelectV2(%c, %x, %n)
}

rules {
  passes(fuse_prelu)
  order(PRelu)
}
