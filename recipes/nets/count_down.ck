# SPDX-License-Identifier: Apache-2.0
# A loop: two graphs that an operator of the main one runs.  Doubles x as often as n says.

model tflite {description: "x * 2 ** n"}
signature "double" @main (n: %n, x: %x) -> (y: %y)

graph main(%n: i32[], %x: f32[2]) -> %y {
  %rest, %y = While(%n, %x) {cond: @more, body: @double}
}

graph more(%n: i32[], %x: f32[2]) -> %go_on {
  %go_on = Greater(%n, 0)
}

graph double(%n: i32[], %x: f32[2]) -> %less, %twice {
  %less = Sub(%n, 1)
  %twice = Mul(%x, 2.0)
}

rules {
  passes(O1)
  ops(While: 1, Greater: 1, Sub: 1, Mul: 1)
}
