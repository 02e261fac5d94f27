# SPDX-License-Identifier: Apache-2.0
# The exclusive cumulative sum along the rows.

graph main(%x: f32[2,4]) -> %y {
  %y = Cumsum(%x, 1) {exclusive: true}
}
