# SPDX-License-Identifier: Apache-2.0
# Padding between the rows and columns of a tensor.

graph main(%x: f32[2,3]) -> %y {
  %y = Dilate(%x, [2,1], -1.0)
}
