# SPDX-License-Identifier: Apache-2.0
# The sum along an axis.

graph main(%x: f32[2,3,4]) -> %y {
  %y = Sum(%x, [1]) {keep_dims: false}
}
