# SPDX-License-Identifier: Apache-2.0
# Replacement of a part of a tensor at a computed position.

graph main(%x: f32[4,4], %at: i32[2]) -> %y {
  %part = const f32[2,2] uniform(1, 2)
  %y = DynamicUpdateSlice(%x, %part, %at)
}
