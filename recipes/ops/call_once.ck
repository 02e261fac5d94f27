# SPDX-License-Identifier: Apache-2.0
# A table of words (zero, one, two) is initialized in the first run only; words are looked up by key.

model tflite

graph main(%x: i64[3]) -> %y, %size {
  CallOnce() {init: @fill}
  %table = Hashtable() {table_id: 1, key_dtype: i64, value_dtype: str}  : resource[1]
  %keys = FloorMod(%x, [4])
  %unknown = const str[1] raw("AQAAAAwAAAAQAAAAbWFueQ==")
  %y = HashtableFind(%table, %keys, %unknown)
  %size = HashtableSize(%table)
}

graph fill() {
  %keys = const i64[3] [0, 1, 2]
  %values = const str[3] raw("AwAAABQAAAAYAAAAGwAAAB4AAAB6ZXJvb25ldHdv")
  %table = Hashtable() {table_id: 1, key_dtype: i64, value_dtype: str}  : resource[1]
  HashtableImport(%table, %keys, %values)
}
