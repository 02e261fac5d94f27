# SPDX-License-Identifier: Apache-2.0
# Left alone: nothing here is for this pass.

graph main(%x: f32[1,3]) -> %y {
  %r/input = const i32[3] [1, 2, 3]
  %r = Cast(%r/input) : f32[3]
  %y = Add(%x, %r) : f32[1,3]
}

rules {
  passes(fold_add_v2)
  unchanged()
}
