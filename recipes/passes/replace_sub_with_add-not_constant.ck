# SPDX-License-Identifier: Apache-2.0
# Refused: the subtrahend is not constant.

graph main(%x: f32[2,3], %c: f32[2,3]) -> %y {
  %y = Sub(%x, %c)
}

rules {
  passes(replace_sub_with_add)
  unchanged()
  refused("%c: is not constant")
}
