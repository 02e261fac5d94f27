# SPDX-License-Identifier: Apache-2.0
# Done: DIV broadcasts by itself.

graph main(%x: f32[2,4,8], %y: f32[2,4,1]) -> %z {
  %b = BroadcastTo(%y, [2, 4, 8])
  %z = Div(%x, %b) {act: RELU}
}

rules {
  passes(remove_broadcast)
  order(Div)
}
