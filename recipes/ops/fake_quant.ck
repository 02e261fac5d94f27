# SPDX-License-Identifier: Apache-2.0
# What eight bits between -1 and 1 would keep.

graph main(%x: f32[2,3]) -> %y {
  %y = FakeQuant(%x) {min: -1.0, max: 1.0, num_bits: 8}
}
