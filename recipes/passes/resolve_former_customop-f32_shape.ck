# SPDX-License-Identifier: Apache-2.0
# Refused: %y: shape %s is f32, expected i32 or i64

graph main(%x: f32[1]) -> %y {
  %s = const f32[1] [1.0]
  %y = Opaque(%x, %s) {code: "CUSTOM", custom_code: "BroadcastTo"} : f32[1]
}

rules {
  passes(resolve_former_customop)
  unchanged()
  refused("expected i32 or i64")
}
