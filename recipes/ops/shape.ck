# SPDX-License-Identifier: Apache-2.0
# The shape of a tensor.

graph main(%x: f32[2,3,4]) -> %y {
  %y = Shape(%x) {out_type: i32}
}
