# SPDX-License-Identifier: Apache-2.0
# Every second column, the first row dropped to a vector.

graph main(%x: f32[3,6]) -> %y {
  %y = StridedSlice(%x, [1,0], [2,6], [1,2]) {shrink_axis_mask: 1}
}
