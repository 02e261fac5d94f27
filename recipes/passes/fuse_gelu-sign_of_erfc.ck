# SPDX-License-Identifier: Apache-2.0
# Refused: x / 2 * erfc(x * sqrt(1/2)) is x - gelu(x).

graph main(%x: f32[2,3]) -> %y {
  %s = Mul(%x, 0.70710677)
  %e = Opaque(%s) {code: "CUSTOM", custom_code: "Erfc"} : f32[2,3]
  %h = Mul(%x, 0.5)
  %y = Mul(%h, %e)
}

rules {
  passes(fuse_gelu)
  unchanged()
  refused("expected the factor -0.707107 before Erfc, got 0.707107")
}
