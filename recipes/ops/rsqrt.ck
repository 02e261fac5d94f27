# SPDX-License-Identifier: Apache-2.0
# 1 / sqrt(x).

graph main(%x: f32[2,3]) -> %y {
  %y = Rsqrt(%x)
}
