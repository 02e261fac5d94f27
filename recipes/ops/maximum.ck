# SPDX-License-Identifier: Apache-2.0
# The elementwise maximum.

graph main(%x: f32[2,3]) -> %y {
  %y = Maximum(%x, [0.5])
}
