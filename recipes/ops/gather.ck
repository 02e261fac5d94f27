# SPDX-License-Identifier: Apache-2.0
# Columns by index.

graph main(%x: f32[2,5]) -> %y {
  %y = Gather(%x, [0, 3, 3]) {axis: 1}
}
