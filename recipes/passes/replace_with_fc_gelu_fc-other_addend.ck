# SPDX-License-Identifier: Apache-2.0
# Refused: %a/rhs: expected the constant 1.0

graph main(%x: f32[2,3]) -> %z {
  %h/weights = const f32[2,3] [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
  %h/bias = const f32[2] [0.5, 0.0]
  %s/weights = const f32[2,3] [0.70710677, 0.0, 0.70710677, 0.0, 0.70710677, 0.0]
  %s/bias = const f32[2] [0.35355338, 0.0]
  %a/rhs = const f32[] 2.0
  %z/weights = const f32[3,2] [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  %z/bias = const f32[3] [1.0, 2.0, 3.0]
  %h = FullyConnected(%x, %h/weights, %h/bias) : f32[2,2]
  %s = FullyConnected(%x, %s/weights, %s/bias) : f32[2,2]
  %e = Opaque(%s) {code: "CUSTOM", custom_code: "Erf"} : f32[2,2]
  %a = Add(%e, %a/rhs) : f32[2,2]
  %m = Mul(%h, %a) : f32[2,2]
  %z = FullyConnected(%m, %z/weights, %z/bias) {act: RELU} : f32[2,3]
}

rules {
  passes(replace_with_fc_gelu_fc)
  unchanged()
  refused("expected the constant 1.0")
}
