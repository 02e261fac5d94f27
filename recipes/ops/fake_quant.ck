# SPDX-License-Identifier: Apache-2.0
# Rounding to the values that 8 bits between -1 and 1 can represent.

graph main(%x: f32[2,3]) -> %y {
  %y = FakeQuant(%x) {min: -1.0, max: 1.0, num_bits: 8}
}
