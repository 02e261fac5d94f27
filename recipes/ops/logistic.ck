# SPDX-License-Identifier: Apache-2.0
# 1 / (1 + exp(-x)).

graph main(%x: f32[2,3]) -> %y {
  %y = Logistic(%x)
}
