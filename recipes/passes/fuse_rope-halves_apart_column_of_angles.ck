# SPDX-License-Identifier: Apache-2.0
# Refused: each position has one angle for all its elements.

graph main(%x: f32[1,2,4,8]) -> %z {
  %cos = const f32[1,1,4,1] uniform(-1, 1)
  %sin = const f32[1,1,4,1] uniform(-1, 1)
  %lo,
  %hi = Split(3, %x) {num_splits: 2}
  %a = Mul(%lo, %cos)
  %b = Mul(%hi, %sin)
  %first = Sub(%a, %b)
  %c = Mul(%hi, %cos)
  %d = Mul(%lo, %sin)
  %second = Add(%c, %d)
  %z = Concatenation(%first, %second) {axis: -1}
}

rules {
  passes(fuse_rope)
  unchanged()
  refused("%sin: expected a row of 4, got shape [1,1,4,1]")
}
