# SPDX-License-Identifier: Apache-2.0
# Left alone: nothing here is for this pass.

graph main(%x: f32[2]) -> %y {
  %k = Cast([1, 2]) : f32[2]
  %y = Add(%x, %k)
}

rules {
  passes(fold_densify)
  unchanged()
}
