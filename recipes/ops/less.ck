# SPDX-License-Identifier: Apache-2.0
# Elementwise comparison: less.

graph main(%a: f32[4], %b: f32[4]) -> %y {
  %y = Less(%a, %b)
}
