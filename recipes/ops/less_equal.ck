# SPDX-License-Identifier: Apache-2.0
# Elementwise comparison: less or equal.

graph main(%a: f32[4], %b: f32[4]) -> %y {
  %y = LessEqual(%a, %b)
}
