# SPDX-License-Identifier: Apache-2.0
# The batch becomes blocks of 2 x 2 pixels; one column is cropped.

graph main(%x: f32[4,2,2,1]) -> %y {
  %y = BatchToSpaceND(%x, [2,2], [[0,0],[0,1]])
}
