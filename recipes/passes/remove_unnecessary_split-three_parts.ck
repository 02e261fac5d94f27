# SPDX-License-Identifier: Apache-2.0
# Refused: %z: num_splits is 3, expected 1

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z,
  %z1,
  %z2 = Split(1, %x) {num_splits: 3}
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_split)
  unchanged()
  refused("num_splits is 3")
}
