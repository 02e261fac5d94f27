# SPDX-License-Identifier: Apache-2.0
# Done: each half is rotated for itself, by constant tables of half a row.

graph main(%x: f32[1,2,3,8]) -> %z {
  %cos = const f32[1,1,1,4] uniform(-1, 1)
  %sin = const f32[1,1,1,4] uniform(-1, 1)
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
  order(RoPE)
}
