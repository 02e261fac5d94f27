# SPDX-License-Identifier: Apache-2.0
# Normalization of each image and channel to mean 0 and variance 1, then scale and shift (circle only).

graph main(%x: f32[1,3,3,2]) -> %y {
  %gamma = const f32[2] uniform(0.5, 1.5)
  %beta = const f32[2] gaussian(0, 0.1)
  %y = InstanceNorm(%x, %gamma, %beta) {epsilon: 1e-05}
}
