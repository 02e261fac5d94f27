# SPDX-License-Identifier: Apache-2.0
# (x - y)^2.

graph main(%x: f32[2,3]) -> %y {
  %y = SquaredDifference(%x, [1.0])
}
