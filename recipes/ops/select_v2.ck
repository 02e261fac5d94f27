# SPDX-License-Identifier: Apache-2.0
# Selection with a broadcast condition, one per row.

graph main(%c: bool[2,1], %a: f32[2,3]) -> %y {
  %y = SelectV2(%c, %a, 0.0)
}
