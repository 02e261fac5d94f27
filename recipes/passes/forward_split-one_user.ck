# SPDX-License-Identifier: Apache-2.0
# Refused: %a: Sub %z reads several parts

graph main(%x: f32[2,2,8]) -> %z {
  %a, %b = Split(2, %x) {num_splits: 2}
  %z = Sub(%a, %b)
}

rules {
  passes(forward_split)
  unchanged()
  refused("%a: Sub %z reads several parts")
}
