# SPDX-License-Identifier: Apache-2.0
# Refused: has to be centered, too; that adds at least as many subtractions of a mean as are removed

graph main(%x: f32[3,4]) -> %z {
  %w = const f32[4,4] gaussian(0, 1)
  %e = Exp(%x)
  %y = FullyConnected(%e, %w)
  %a = Add(%y, %e)
  %m = Mean(%a, [-1]) {keep_dims: true}
  %z = Sub(%a, %m)
}

rules {
  passes(fuse_mean_subtraction)
  unchanged()
  refused("has to be centered, too; that adds at least as many subtractions of a mean as are removed")
}
