# SPDX-License-Identifier: Apache-2.0
# Refused: there is nothing to compute.

graph main(%x: f32[?,4,6]) -> %z {
  %z = Reshape(%x, [-1, 24])
}

rules {
  passes(fold_computed_shape)
  unchanged()
  refused("is constant")
}
