# SPDX-License-Identifier: Apache-2.0
# Elementwise comparison: not equal.

graph main(%a: f32[4], %b: f32[4]) -> %y {
  %y = NotEqual(%a, %b)
}
