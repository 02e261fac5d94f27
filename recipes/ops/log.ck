# SPDX-License-Identifier: Apache-2.0
# The natural logarithm of each element.

graph main(%x: f32[2,3]) -> %y {
  %y = Log(%x)
}
