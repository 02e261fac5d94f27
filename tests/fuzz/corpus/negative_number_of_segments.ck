# SPDX-License-Identifier: Apache-2.0
# The largest of each group, by the number of the group.

graph main(%x: f32[4,2]) -> %y {
  %y = UnsortedSegmentMax(%x, [1, 0, 1, 0], -2)
}
