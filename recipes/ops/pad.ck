# SPDX-License-Identifier: Apache-2.0
# Zero padding around the pixels.

graph main(%x: f32[1,3,3,2]) -> %y {
  %y = Pad(%x, [[0,0],[1,1],[1,1],[0,0]])
}
