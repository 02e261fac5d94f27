# SPDX-License-Identifier: Apache-2.0
# Done: RMS normalization as StableHLO writes it, where a mean is a sum, a Reshape and a division.

graph main(%x: f32[1,4,8]) -> %z {
  %q = Mul(%x, %x)
  %s = Sum(%q, [2])
  %k = Reshape(%s, [1,4,1])
  %m = Div(%k, 8.0)
  %a = Add(%m, 1e-5)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(O1)
  order(RmsNorm)
}
