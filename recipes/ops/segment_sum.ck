# SPDX-License-Identifier: Apache-2.0
# Sums of consecutive rows of equal segment id.

graph main(%x: f32[4,2]) -> %y {
  %y = SegmentSum(%x, [0, 0, 1, 1])
}
