# SPDX-License-Identifier: Apache-2.0
# Rounding up to an integer.

graph main(%x: f32[2,3]) -> %y {
  %y = Ceil(%x)
}
