# SPDX-License-Identifier: Apache-2.0
# The maximum along an axis.

graph main(%x: f32[2,3,4]) -> %y {
  %y = ReduceMax(%x, [1]) {keep_dims: true}
}
