# SPDX-License-Identifier: Apache-2.0
# The number of dimensions of a tensor.

graph main(%x: f32[2,3,4]) -> %y {
  %y = Rank(%x)
}
