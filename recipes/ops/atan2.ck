# SPDX-License-Identifier: Apache-2.0
# The angle of the point (x, y); all four quadrants.

graph main(%b: f32[8], %a: f32[8]) -> %y {
  %y = Atan2(%b, %a)
}
