# SPDX-License-Identifier: Apache-2.0
# Blocks of 2 x 2 pixels become channels.

graph main(%x: f32[1,4,4,1]) -> %y {
  %y = SpaceToDepth(%x) {block_size: 2}
}
