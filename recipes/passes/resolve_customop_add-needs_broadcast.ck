# SPDX-License-Identifier: Apache-2.0
# Done: ADD alone would not give the shape of the BROADCAST_TO, which stays.

graph main(%x: f32[4], %y: f32[3,4]) -> %z {
  %b = BroadcastTo(%x, [2, 3, 4])
  %z = Opaque(%b, %y) {code: "CUSTOM", custom_code: "AddV2"} : f32[2,3,4]
}

rules {
  passes(resolve_customop_add)
  order(BroadcastTo, Add)
}
