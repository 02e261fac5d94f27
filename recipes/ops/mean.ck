# SPDX-License-Identifier: Apache-2.0
# The mean of each channel.

graph main(%x: f32[1,4,4,3]) -> %y {
  %y = Mean(%x, [1,2]) {keep_dims: true}
}
