// Number formats in memory. All arithmetic is in 32-bit floats, so these types can only be converted (device.cuh).
#pragma once

#include <cstdint>

/// Half precision: 5 exponent bits, 10 fraction bits.
struct f16 {
    uint16_t bits;
};

/// bf16: the upper half of a 32-bit float.
struct bf16 {
    uint16_t bits;
};

/// 16 bytes: the most that a thread reads or writes in one access.
struct alignas(16) Chunk {
    uint32_t words[4];
};

/// Adjacent numbers that are read and written in one access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Group {
    T values[count];
};

/// The format in memory of a format of tensor cores. TF32 numbers are 32-bit floats in memory.
template <typename T>
struct Storage {
    using Type = T;
};
struct tf32 {};
template <>
struct Storage<tf32> {
    using Type = float;
};
