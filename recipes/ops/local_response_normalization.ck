# SPDX-License-Identifier: Apache-2.0
# Division by the energy of neighbouring channels.

graph main(%x: f32[1,2,2,6]) -> %y {
  %y = LocalResponseNormalization(%x) {radius: 2, bias: 1.0, alpha: 0.5, beta: 0.5}
}
