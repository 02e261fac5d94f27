# SPDX-License-Identifier: Apache-2.0
# Refused: each position has one sine for all its elements.

graph main(%x: f32[1,2,8,8], %cos: f32[1,1,1,8]) -> %z {
  %sines = const f32[1,1,8,1] uniform(-1, 1)
  %lo,
  %hi = Split(3, %x) {num_splits: 2}
  %c = Concatenation(%hi, %lo) {axis: -1}
  %p = Mul(%x, %cos)
  %q = Mul(%c, %sines)
  %z = Add(%p, %q)
}

rules {
  passes(fuse_rope)
  unchanged()
  refused("%sines: expected a row of 8, got shape [1,1,8,1]")
}
