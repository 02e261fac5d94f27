# SPDX-License-Identifier: Apache-2.0
# A dense layer with 3-bit binary-coded weights: three sign planes, each with a scale per row (circle only).

graph main(%x: f32[8,2]) -> %y {
  %scales = const f32[12] uniform(0.1, 1)
  %binary = const i32[12,1] arange(3, 17)
  %y = BcqFullyConnected(%x, %scales, %binary, none, [[3,4]]) {weights_hidden_size: 8}  : f32[4,2]
}
