# SPDX-License-Identifier: Apache-2.0
# Refused: the slice takes one element, although the file states unknown sizes for its operand and its result.

graph main(%x: f32[?]) -> %y {
  %a = Neg(%x)
  %b = Slice(%a, [0], [1])  : f32[?]
  %y = Neg(%b)              : f32[?]
}

rules {
  passes(merge_data_movement)
  unchanged()
  refused("%b: where its elements go depends on other operands, or follows no regular pattern")
}
