# SPDX-License-Identifier: Apache-2.0
# x clamped to [0, 1].

graph main(%x: f32[2,3]) -> %y {
  %y = Relu0To1(%x)
}
