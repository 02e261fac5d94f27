# SPDX-License-Identifier: Apache-2.0
# Refused: %a: comes from Unpack, expected a layer, a sum or moved rows

graph main(%x: f32[1,5,4,4]) -> %y, %z {
  %w = const f32[4,1,1,4] gaussian(0, 1)
  %c = Conv2D(%x, %w, none) {padding: SAME}
  %a, %b, %p, %q = Unpack(%c) {num: 4, axis: -1}
  %m = Mean(%a, [2]) {keep_dims: true}
  %y = Sub(%a, %m)
  %m2 = Mean(%b, [2]) {keep_dims: true}
  %z = Sub(%b, %m2)
}

rules {
  passes(fuse_mean_subtraction)
  unchanged()
  refused("%a: comes from Unpack, expected a layer, a sum or moved rows")
}
