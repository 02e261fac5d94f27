# SPDX-License-Identifier: Apache-2.0
# Refused: a rate of 0.5 with a factor of 3 does not keep the mean, so it is not dropout.

graph main(%x: f32[2,4]) -> %y {
  %r/shape = const i32[2] [2, 4]
  %g/rhs = const f32[] 0.5
  %s/rhs = const f32[] 3.0
  %r = RandomUniform(%r/shape) {seed: 1, seed2: 2} : f32[2,4]
  %g = GreaterEqual(%r, %g/rhs) : bool[2,4]
  %m = Cast(%g) : f32[2,4]
  %n = Neg(%x) : f32[2,4]
  %s = Mul(%n, %s/rhs) : f32[2,4]
  %z = Mul(%s, %m) : f32[2,4]
  %y = Neg(%z) : f32[2,4]
}

rules {
  passes(remove_dropout)
  unchanged()
  refused("expected a factor of 2 for the kept part of 0.5, got 3")
}
