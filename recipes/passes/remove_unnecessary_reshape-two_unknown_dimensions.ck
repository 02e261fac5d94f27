# SPDX-License-Identifier: Apache-2.0
# Refused: %b: has more than one unknown dimension: [?,?]

graph main(%x: f32[?,?], %z: f32[?,?]) -> %y {
  %s = Shape(%z) {out_type: i32}
  %a = Neg(%x)
  %b = Reshape(%a, %s)      : f32[?,?]
  %y = Reshape(%b, [-1])
}

rules {
  passes(remove_unnecessary_reshape)
  unchanged()
  refused("has more than one unknown dimension: [?,?]")
}
