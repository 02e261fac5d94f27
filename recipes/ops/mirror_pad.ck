# SPDX-License-Identifier: Apache-2.0
# The border repeats what is inside, in reverse.

graph main(%x: f32[3,4]) -> %y {
  %y = MirrorPad(%x, [[1,1],[2,0]]) {mode: REFLECT}
}
