# SPDX-License-Identifier: Apache-2.0
# Refused: the constant raises the rank, so the difference would have another shape.

graph main(%x: f32[3], %y: f32[3]) -> %z {
  %n = Mul(%x, [[-1.0]])
  %z = Add(%n, %y)
}

rules {
  passes(fuse_neg)
  unchanged()
}
