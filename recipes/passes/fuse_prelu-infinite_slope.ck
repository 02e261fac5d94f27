# SPDX-License-Identifier: Apache-2.0
# Refused: 0 * inf is NaN in %n, while PRELU(0) is 0

graph main(%x: f32[2,2]) -> %z {
  %c = Greater(%x, 0.0)
  %n = Mul(%x, [0.1, inf])
  %z = SelectV2(%c, %x, %n)
}

rules {
  passes(fuse_prelu)
  unchanged()
  refused("expected finite numbers, got inf")
}
