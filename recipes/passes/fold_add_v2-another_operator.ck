# SPDX-License-Identifier: Apache-2.0
# Left alone: the model has no operator that this pass matches.

graph main(%x: f32[1,3]) -> %y {
  %r/input = const i32[3] [1, 2, 3]
  %r = Cast(%r/input) : f32[3]
  %y = Add(%x, %r) : f32[1,3]
}

rules {
  passes(fold_add_v2)
  unchanged()
}
