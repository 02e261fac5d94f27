# SPDX-License-Identifier: Apache-2.0
# Refused: %z: expected addends up to 256, got 8388608

graph main(%x: f32[2,4]) -> %z {
  %m = Add(%x, 8388608.0)
  %z = Sub(%m, 8388608.0)
}

rules {
  passes(fuse_add_with_add)
  unchanged()
  refused("%z: expected addends up to 256, got 8.38861e+06")
}
