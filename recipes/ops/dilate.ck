# SPDX-License-Identifier: Apache-2.0
# Rows and columns of padding between those of the tensor.

graph main(%x: f32[2,3]) -> %y {
  %y = Dilate(%x, [2,1], -1.0)
}
