# SPDX-License-Identifier: Apache-2.0
# Refused: %s: comes from Pack, expected a layer, a sum or moved rows

graph main(%x: f32[1,2], %k: f32[1,2]) -> %y {
  %w = const f32[2,2] gaussian(0, 1)
  %v = const f32[2,2] gaussian(0, 1)
  %c = FullyConnected(%x, %w, none)
  %d = FullyConnected(%k, %v, none)
  %s = Pack(%c, %d) {values_count: 2, axis: -1}
  %m = Mean(%s, [2]) {keep_dims: true}
  %y = Sub(%s, %m)
}

rules {
  passes(fuse_mean_subtraction)
  unchanged()
  refused("%s: comes from Pack, expected a layer, a sum or moved rows")
}
