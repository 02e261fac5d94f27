# SPDX-License-Identifier: Apache-2.0
# Refused: %y: has shape [1] if operands have rank 0, the rewrite gives []

graph main(%x: f32[*]) -> %y {
  %m = Minimum(%x, [6.0])
  %y = Maximum(%m, 0.0)
}

rules {
  passes(transform_min_max_to_relu6)
  unchanged()
  refused("%y: has shape [1] if operands have rank 0, the rewrite gives []")
}
