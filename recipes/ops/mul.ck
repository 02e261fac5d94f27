# SPDX-License-Identifier: Apache-2.0
# A scale along the last axis.

graph main(%x: f32[1,4,4,3]) -> %y {
  %y = Mul(%x, [2.0, 0.5, -1.0])
}
