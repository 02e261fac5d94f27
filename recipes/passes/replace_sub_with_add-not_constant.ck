# SPDX-License-Identifier: Apache-2.0
# Refused: what is subtracted is not known.

graph main(%x: f32[2,3], %c: f32[2,3]) -> %y {
  %y = Sub(%x, %c)
}

rules {
  passes(replace_sub_with_add)
  unchanged()
  refused("%c: is not constant")
}
