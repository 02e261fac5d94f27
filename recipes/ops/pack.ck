# SPDX-License-Identifier: Apache-2.0
# Two tensors stacked along a new dimension.

graph main(%a: f32[3], %b: f32[3]) -> %y {
  %y = Pack(%a, %b) {values_count: 2, axis: 0}
}
