# SPDX-License-Identifier: Apache-2.0
# The elementwise minimum.

graph main(%x: f32[2,3]) -> %y {
  %y = Minimum(%x, [0.5])
}
