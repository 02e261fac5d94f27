# SPDX-License-Identifier: Apache-2.0
# A part of a tensor is replaced, at a place that is known late.

graph main(%x: f32[4,4], %at: i32[2]) -> %y {
  %part = const f32[2,2] uniform(1, 2)
  %y = DynamicUpdateSlice(%x, %part, %at)
}
