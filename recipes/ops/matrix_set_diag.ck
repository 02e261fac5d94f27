# SPDX-License-Identifier: Apache-2.0
# Matrices with a replaced diagonal.

graph main(%x: f32[2,3,3], %d: f32[2,3]) -> %y {
  %y = MatrixSetDiag(%x, %d)
}
