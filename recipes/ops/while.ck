# SPDX-License-Identifier: Apache-2.0
# A loop: the body is run while the condition holds.

graph main(%x: f32[2]) -> %y {
  %count, %y = While(0, %x) {cond: @is_early, body: @step}
}

graph is_early(%i: i32[], %x: f32[2]) -> %go_on {
  %go_on = Less(%i, 3)
}

graph step(%i: i32[], %x: f32[2]) -> %next, %half {
  %next = Add(%i, 1)
  %half = Mul(%x, 0.5)
}
