# SPDX-License-Identifier: Apache-2.0
# Refused: %d: Unpack has several results

graph main(%x: f32[2,4,6]) -> %y {
  %a, %b, %c, %d = Unpack(%x) {num: 4, axis: 1}
  %y = Slice(%d, [0, 3], [2, 3])
}

rules {
  passes(backward_slice)
  unchanged()
  refused("Unpack has several results")
}
