# SPDX-License-Identifier: Apache-2.0
# Refused: the branch gets a copy of the state, which the layer after the IF changes.

graph main(%x: f32[1,3]) -> %y, %z {
  %feature = const f32[2,3] gaussian(0, 0.4)
  %time = const f32[2,4] gaussian(0, 0.4)
  %state: f32[1,8] variable
  %before = If(true, %state) {then_graph: @same, else_graph: @half}
  %y = Svdf(%x, %feature, %time, none, %state) {rank: 1}
  %z = Neg(%before)
}

graph same(%s: f32[1,8]) -> %s {
}

graph half(%s: f32[1,8]) -> %y {
  %y = Mul(%s, 0.5)
}

rules {
  passes(remove_constant_if)
  unchanged()
  refused("%state: is a variable, of which the branch gets a copy that does not change")
}
