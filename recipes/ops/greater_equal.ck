# SPDX-License-Identifier: Apache-2.0
# Elementwise comparison: greater or equal.

graph main(%a: f32[4], %b: f32[4]) -> %y {
  %y = GreaterEqual(%a, %b)
}
