# SPDX-License-Identifier: Apache-2.0
# A batch of matrix products, the second operand transposed.

graph main(%a: f32[2,3,4], %b: f32[2,5,4]) -> %y {
  %y = BatchMatMul(%a, %b) {adj_y: true}
}
