# SPDX-License-Identifier: Apache-2.0
# The product of each group, by the number of the group.

graph main(%x: f32[4,2]) -> %y {
  %y = UnsortedSegmentProd(%x, [1, 0, 1, 2], 3)
}
