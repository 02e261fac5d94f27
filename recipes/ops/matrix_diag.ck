# SPDX-License-Identifier: Apache-2.0
# Vectors as diagonals of matrices.

graph main(%x: f32[2,3]) -> %y {
  %y = MatrixDiag(%x)
}
