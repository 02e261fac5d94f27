# SPDX-License-Identifier: Apache-2.0
# Refused: %z/rhs: expected the constant 0.0

graph main(%x: f32[2,1,3,1]) -> %z {
  %m = Minimum(%x, 6.0)
  %z = Maximum(%m, 1.0)
}

rules {
  passes(transform_min_max_to_relu6)
  unchanged()
  refused("expected the constant 0.0")
}
