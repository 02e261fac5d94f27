# SPDX-License-Identifier: Apache-2.0
# Refused: the sines have a row for each position, and ONE reads only row 0.

graph main(%x: f32[1,2,3,8], %cos: f32[1,1,1,8]) -> %z {
  %sines = const f32[1,1,3,8] uniform(-1, 1)
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
  refused("a row per position")
}
