# SPDX-License-Identifier: Apache-2.0
# The sum of all elements before this one, along the rows.

graph main(%x: f32[2,4]) -> %y {
  %y = Cumsum(%x, 1) {exclusive: true}
}
