# SPDX-License-Identifier: Apache-2.0
# Addition of a bias along the last axis, with a fused activation.

graph main(%x: f32[1,4,4,3]) -> %y {
  %y = Add(%x, [0.5, -1.0, 2.0]) {act: RELU}
}
