# SPDX-License-Identifier: Apache-2.0
# How many dimensions a tensor has.

graph main(%x: f32[2,3,4]) -> %y {
  %y = Rank(%x)
}
