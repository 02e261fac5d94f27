# SPDX-License-Identifier: Apache-2.0
# Zeros of the operand's shape.

graph main(%x: f32[2,3]) -> %y {
  %y = ZerosLike(%x)
}
