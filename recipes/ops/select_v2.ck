# SPDX-License-Identifier: Apache-2.0
# With broadcasting: a condition for each row.

graph main(%c: bool[2,1], %a: f32[2,3]) -> %y {
  %y = SelectV2(%c, %a, 0.0)
}
