# SPDX-License-Identifier: Apache-2.0
# Refused: a rate of -1 drops nothing; the factor 0.5 is 1 / (1 - rate), but does not keep the mean.

graph main(%x: f32[2,4]) -> %y {
  %r/shape = const i32[2] [2, 4]
  %g/rhs = const f32[] -1.0
  %s/rhs = const f32[] 0.5
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
  refused("expected a factor of 1 for the kept part of 1, got 0.5")
}
