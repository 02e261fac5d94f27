# SPDX-License-Identifier: Apache-2.0
# Reversal along an axis.

graph main(%x: f32[2,3]) -> %y {
  %y = ReverseV2(%x, [1])
}
