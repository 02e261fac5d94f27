# SPDX-License-Identifier: Apache-2.0
# A rectangle given by its start and size; -1 is the remaining size.

graph main(%x: f32[3,4]) -> %y {
  %y = Slice(%x, [1,0], [2,-1])
}
