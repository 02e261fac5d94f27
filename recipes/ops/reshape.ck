# SPDX-License-Identifier: Apache-2.0
# The same elements in another shape; -1 is the remaining size.

graph main(%x: f32[2,6]) -> %y {
  %y = Reshape(%x, [3,-1])
}
