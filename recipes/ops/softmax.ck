# SPDX-License-Identifier: Apache-2.0

graph main(%x: f32[2,5]) -> %y {
  %y = Softmax(%x) {beta: 1.0}
}
