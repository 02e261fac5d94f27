# SPDX-License-Identifier: Apache-2.0
# The negative of each element.

graph main(%x: f32[2,3]) -> %y {
  %y = Neg(%x)
}
