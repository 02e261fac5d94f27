# SPDX-License-Identifier: Apache-2.0
# Left alone: the model has no operator that this pass matches.

graph main(%x: f32[1,3]) -> %y {
  %k/operand = const i32[3] [1, 2, 3]
  %k/operand_1 = const i32[3] [4, 5, 6]
  %k = Opaque(%k/operand, %k/operand_1) {code: "CUSTOM", custom_code: "AddV2"} : i32[3]
  %r = Cast(%k) : f32[3]
  %y = Add(%x, %r) : f32[1,3]
}

rules {
  passes(fold_squeeze)
  unchanged()
}
