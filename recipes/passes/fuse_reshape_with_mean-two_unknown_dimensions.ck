# SPDX-License-Identifier: Apache-2.0
# Refused: %c: has more than one unknown dimension: [?,?]

graph main(%x: f32[?,?,5]) -> %y {
  %a = Neg(%x)
  %b = Mean(%a, [2]) {keep_dims: true}
  %c = Squeeze(%b) {squeeze_dims: [2]}
  %y = Neg(%c)
}

rules {
  passes(fuse_reshape_with_mean)
  unchanged()
  refused("%c: has more than one unknown dimension: [?,?]")
}
