# SPDX-License-Identifier: Apache-2.0
# A rectangle by its corner and its size; -1 is all that is left.

graph main(%x: f32[3,4]) -> %y {
  %y = Slice(%x, [1,0], [2,-1])
}
