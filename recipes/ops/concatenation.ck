# SPDX-License-Identifier: Apache-2.0
# Concatenation of two tensors along the channels.

graph main(%a: f32[1,2,2,1], %b: f32[1,2,2,3]) -> %y {
  %y = Concatenation(%a, %b) {axis: 3}
}
