# SPDX-License-Identifier: Apache-2.0
# Vectors scaled to mean square 1, times gamma (circle only).

graph main(%x: f32[2,4]) -> %y {
  %gamma = const f32[4] uniform(0.5, 1.5)
  %y = RmsNorm(%x, %gamma) {epsilon: 1e-06}
}
