# SPDX-License-Identifier: Apache-2.0
# Refused: %z: expected addends that do not cancel, got 1 with the sum 0

graph main(%x: f32[2,4]) -> %z {
  %m = Add(%x, 1.0)
  %z = Sub(%m, 1.0)
}

rules {
  passes(fuse_add_with_add)
  unchanged()
  refused("%z: expected addends that do not cancel, got 1 with the sum 0")
}
