# SPDX-License-Identifier: Apache-2.0
# The shape that two shapes broadcast to.

graph main(%x: f32[1,4]) -> %y {
  %shape = Shape(%x) {out_type: i32}
  %y = BroadcastArgs(%shape, [3,1])
}
