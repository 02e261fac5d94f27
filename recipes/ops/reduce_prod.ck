# SPDX-License-Identifier: Apache-2.0
# The product along an axis.

graph main(%x: f32[2,3,4]) -> %y {
  %y = ReduceProd(%x, [0,2])
}
