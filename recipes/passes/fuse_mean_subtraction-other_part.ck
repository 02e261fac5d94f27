# SPDX-License-Identifier: Apache-2.0
# Refused: %a: cannot be centered without %b, which cannot be centered

graph main(%x: f32[4,3]) -> %y, %z {
  %w = const f32[5,3] gaussian(0, 1)
  %c = FullyConnected(%x, %w, none)
  %a, %b = Split(0, %c) {num_splits: 2}
  %m = Mean(%a, [-1]) {keep_dims: true}
  %y = Sub(%a, %m)
  %z = Neg(%b)
}

rules {
  passes(fuse_mean_subtraction)
  unchanged()
  refused("%a: cannot be centered without %b, which cannot be centered")
}
