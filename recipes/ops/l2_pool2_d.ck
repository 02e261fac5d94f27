# SPDX-License-Identifier: Apache-2.0
# The root mean square of every window.

graph main(%x: f32[1,4,4,2]) -> %y {
  %y = L2Pool2D(%x) {padding: VALID, stride_w: 2, stride_h: 2, filter_width: 2, filter_height: 2}
}
