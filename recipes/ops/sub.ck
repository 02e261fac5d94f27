# SPDX-License-Identifier: Apache-2.0
# Elementwise subtraction.

graph main(%x: f32[2,3]) -> %y {
  %y = Sub(%x, [[1.0, 2.0, 3.0]])
}
