# SPDX-License-Identifier: Apache-2.0
# Four channels become a block of 2 x 2 pixels.

graph main(%x: f32[1,2,2,4]) -> %y {
  %y = DepthToSpace(%x) {block_size: 2}
}
