# SPDX-License-Identifier: Apache-2.0
# Refused: the finite weights differ, which an infinite weight must not hide.

graph main(%x: f32[2,2]) -> %z {
  %w1 = const f32[2,2] [1.0, inf, 1.0, 2.0]
  %w2 = const f32[2,2] [0.5, 1.0, 0.5, 1.0]
  %w3 = const f32[2,2] [1.0, 2.0, -1.0, 0.5]
  %h = FullyConnected(%x, %w1)
  %s = FullyConnected(%x, %w2)
  %e = Opaque(%s) {code: "CUSTOM", custom_code: "Erf"} : f32[2,2]
  %a = Add(%e, 1.0)
  %m = Mul(%h, %a)
  %z = FullyConnected(%m, %w3)
}

rules {
  passes(replace_with_fc_gelu_fc)
  unchanged()
  refused("expected the weights before Erf to be sqrt(1/2) times those of the other layer")
}
