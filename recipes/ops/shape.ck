# SPDX-License-Identifier: Apache-2.0

graph main(%x: f32[2,3,4]) -> %y {
  %y = Shape(%x) {out_type: i32}
}
