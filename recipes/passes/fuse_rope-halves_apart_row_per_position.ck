# SPDX-License-Identifier: Apache-2.0
# Refused: the tables have a row for each position, and ONE reads only row 0.

graph main(%x: f32[1,2,3,8]) -> %z {
  %cos = const f32[1,1,3,4] uniform(-1, 1)
  %sin = const f32[1,1,3,4] uniform(-1, 1)
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
  refused("a row per position")
}
