# SPDX-License-Identifier: Apache-2.0
# Padding with mirrored elements.

graph main(%x: f32[3,4]) -> %y {
  %y = MirrorPad(%x, [[1,1],[2,0]]) {mode: REFLECT}
}
