# SPDX-License-Identifier: Apache-2.0
# Rows of a table with 3-bit binary codes (circle only).

graph main(%rows: i32[2]) -> %y {
  %scales = const f32[12] uniform(0.1, 1)
  %binary = const i32[12,1] arange(3, 17)
  %y = BcqGather(%scales, %binary, %rows, [[3,4]]) {input_hidden_size: 32, axis: 0}
}
