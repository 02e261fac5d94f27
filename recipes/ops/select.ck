# SPDX-License-Identifier: Apache-2.0
# Elementwise selection by a condition.

graph main(%c: bool[4], %a: f32[4], %b: f32[4]) -> %y {
  %y = Select(%c, %a, %b)
}
