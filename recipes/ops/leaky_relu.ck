# SPDX-License-Identifier: Apache-2.0
# x for x >= 0, alpha * x below.

graph main(%x: f32[2,3]) -> %y {
  %y = LeakyRelu(%x) {alpha: 0.1}
}
