# SPDX-License-Identifier: Apache-2.0
# Matrices with another diagonal.

graph main(%x: f32[2,3,3], %d: f32[2,3]) -> %y {
  %y = MatrixSetDiag(%x, %d)
}
