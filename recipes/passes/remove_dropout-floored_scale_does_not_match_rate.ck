# SPDX-License-Identifier: Apache-2.0
# Refused: half of the elements are kept, but divided by 0.25.

graph main(%x: f32[2,4]) -> %y {
  %shape = const i32[2] [2, 4]
  %r = RandomUniform(%shape) {seed: 1, seed2: 2} : f32[2,4]
  %a = Add(%r, 0.5)
  %m = Floor(%a)
  %n = Neg(%x)
  %s = Div(%n, 0.25)
  %z = Mul(%s, %m)
  %y = Neg(%z)
}

rules {
  passes(remove_dropout)
  unchanged()
  refused("expected a factor of 2 for the kept part of 0.5, got 4")
}
