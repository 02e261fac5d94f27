# SPDX-License-Identifier: Apache-2.0
# Vectors scaled to length 1.

graph main(%x: f32[2,4]) -> %y {
  %y = L2Normalization(%x)
}
