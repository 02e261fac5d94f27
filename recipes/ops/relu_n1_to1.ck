# SPDX-License-Identifier: Apache-2.0
# x clamped to [-1, 1].

graph main(%x: f32[2,3]) -> %y {
  %y = ReluN1To1(%x)
}
