# SPDX-License-Identifier: Apache-2.0
# Refused: here positive x are multiplied by alpha.

graph main(%x: f32[2,3]) -> %y {
  %alpha = const f32[3] [-0.25, 0.5, -2.0]
  %c = Greater(%x, 0.0)
  %n = Mul(%alpha, %x)
  %y = SelectV2(%c, %n, %x)
}

rules {
  passes(fuse_prelu)
  unchanged()
  refused("%x: comes from an input, expected Mul")
}
