# SPDX-License-Identifier: Apache-2.0
# Elementwise power.

graph main(%x: f32[2,3]) -> %y {
  %y = Pow(%x, [2.0])
}
