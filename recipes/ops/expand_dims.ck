# SPDX-License-Identifier: Apache-2.0
# A new dimension of size 1 before the last one.

graph main(%x: f32[2,3]) -> %y {
  %y = ExpandDims(%x, -1)
}
