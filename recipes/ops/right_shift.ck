# SPDX-License-Identifier: Apache-2.0
# Elementwise right shift.

graph main(%a: i32[4]) -> %y {
  %y = RightShift(%a, [1, 2, 3, 4])
}
