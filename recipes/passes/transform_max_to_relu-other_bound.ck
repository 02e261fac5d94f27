# SPDX-License-Identifier: Apache-2.0
# Refused: the lower bound is not -1

graph main(%x: f32[2,3]) -> %y {
  %m = Minimum(%x, 1.0)
  %y = Maximum(%m, -2.0)
}

rules {
  passes(transform_max_to_relu)
  unchanged()
  refused("expected the constant -1.0")
}
