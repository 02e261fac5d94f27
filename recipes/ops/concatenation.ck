# SPDX-License-Identifier: Apache-2.0
# Channels of two tensors side by side.

graph main(%a: f32[1,2,2,1], %b: f32[1,2,2,3]) -> %y {
  %y = Concatenation(%a, %b) {axis: 3}
}
