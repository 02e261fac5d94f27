# SPDX-License-Identifier: Apache-2.0
# Refused: %n: is also read by Exp %e

graph main(%x: f32[2,3], %a: f32[2,3]) -> %y, %e {
  %n = Neg(%x)
  %y = Add(%a, %n)
  %e = Exp(%n)
}

rules {
  passes(fuse_neg)
  unchanged()
  refused("is also read by Exp")
}
