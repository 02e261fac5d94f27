# SPDX-License-Identifier: Apache-2.0
# From NCHW to NHWC.

graph main(%x: f32[1,3,4,5]) -> %y {
  %y = Transpose(%x, [0,2,3,1])
}
