# SPDX-License-Identifier: Apache-2.0
# Padding with a given value.

graph main(%x: f32[2,3]) -> %y {
  %y = PadV2(%x, [[1,0],[0,2]], -1.0)
}
