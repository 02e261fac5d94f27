# SPDX-License-Identifier: Apache-2.0
# Elementwise comparison: greater.

graph main(%a: f32[4], %b: f32[4]) -> %y {
  %y = Greater(%a, %b)
}
