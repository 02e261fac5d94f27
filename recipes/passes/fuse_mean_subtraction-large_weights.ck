# SPDX-License-Identifier: Apache-2.0
# Refused: %w: expected finite numbers up to half the largest f32

graph main(%x: f32[3,2]) -> %z {
  %w = const f32[2,2] [3e38, 0.0, -3e38, 0.0]
  %y = FullyConnected(%x, %w, none)
  %m = Mean(%y, [-1]) {keep_dims: true}
  %d = Sub(%y, %m)
  %z = Exp(%d)
}

rules {
  passes(fuse_mean_subtraction)
  unchanged()
  refused("%w: expected finite numbers up to half the largest f32")
}
