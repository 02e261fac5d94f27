# SPDX-License-Identifier: Apache-2.0
# One row becomes three.

graph main(%x: f32[1,4]) -> %y {
  %y = BroadcastTo(%x, [3,4])
}
