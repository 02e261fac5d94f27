# SPDX-License-Identifier: Apache-2.0
# Elementwise division.

graph main(%x: f32[2,3]) -> %y {
  %y = Div(%x, [[2.0, 4.0, 0.5]])
}
