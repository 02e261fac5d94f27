# SPDX-License-Identifier: Apache-2.0
# Refused: the operand of Erf is multiplied by 0.7, expected sqrt(1/2)

graph main(%x: f32[2,3]) -> %z {
  %s/rhs = const f32[] 0.7
  %a/rhs = const f32[] 1.0
  %z/rhs = const f32[] 0.5
  %s = Mul(%x, %s/rhs) : f32[2,3]
  %e = Opaque(%s) {code: "CUSTOM", custom_code: "Erf"} : f32[2,3]
  %a = Add(%e, %a/rhs) : f32[2,3]
  %m = Mul(%x, %a) : f32[2,3]
  %z = Mul(%m, %z/rhs) : f32[2,3]
}

rules {
  passes(fuse_gelu)
  unchanged()
  refused("expected the factor 0.707107 before Erf, got 0.7")
}
