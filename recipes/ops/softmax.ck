# SPDX-License-Identifier: Apache-2.0
# The softmax along the last axis.

graph main(%x: f32[2,5]) -> %y {
  %y = Softmax(%x) {beta: 1.0}
}
