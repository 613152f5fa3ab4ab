// The counterpart of device.cuh for machines without a GPU: the same functions in standard C++.
//
// Each thread of a block is a fiber with its own stack. It runs until it reaches a barrier, or an operation that all lanes of a
// warp execute together. Then another runnable fiber is chosen pseudo-randomly, so that a missing barrier is detected: in some
// order, a thread reads what is not yet written. For the same reason, memory is initialized with NaN, and an asynchronous copy
// leaves NaN in its destination until a thread waits for it, which is also when the copy takes place.
//
// A warp operation is executed by the last lane that arrives, on fragments as the PTX ISA describes them. Lanes therefore never
// overtake each other at such an operation, and a missing warp_sync next to one is not detected.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "../formats.cuh"

namespace emulate {

/// An operation that all lanes of a warp execute together, given the operands of each lane.
using WarpOperation = void (*)(void *const (&lanes)[32]);

int thread();
int block(int axis);
void *shared_memory(size_t bytes);
void block_barrier();
void warp_collective(WarpOperation operation, void *operands);
void copy(void *to, const void *from, int valid);
void commit();
void wait(int groups);
/// Ends the launch with an error.
[[noreturn]] void fail(const char *why);

/// Registers a kernel by its name.
struct Registration {
    Registration(const char *name, size_t bytes, int threads, void (*run)(const void *));
};

float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float value);

} // namespace emulate

#define KERNEL(name, Parameters, threads, blocks)                                                       \
    static void name(const Parameters &p);                                                              \
    static emulate::Registration register_##name(                                                       \
        #name, sizeof(Parameters), threads,                                                             \
        [](const void *parameters) { name(*static_cast<const Parameters *>(parameters)); });            \
    static void name(const Parameters &p)

#define SHARED(Type, name) Type &name = *static_cast<Type *>(emulate::shared_memory(sizeof(Type)))

#define DEVICE static inline
#define DEVICE_MEMBER inline
#define UNROLL
#define UNROLL_4

DEVICE int thread_index() { return emulate::thread(); }
DEVICE int lane_index() { return emulate::thread() & 31; }
DEVICE int warp_index() { return emulate::thread() >> 5; }
DEVICE int block_x() { return emulate::block(0); }
DEVICE int block_y() { return emulate::block(1); }

DEVICE void block_sync() { emulate::block_barrier(); }

DEVICE void warp_sync() {
    emulate::warp_collective([](void *const (&)[32]) {}, nullptr);
}

struct Shuffle {
    float value, result;
    int mask;
};

DEVICE float shuffle_xor(float value, int mask) {
    Shuffle own{value, 0.0f, mask};
    const auto operation = [](void *const (&lanes)[32]) {
        for (int lane = 0; lane < 32; lane++) {
            Shuffle *to = static_cast<Shuffle *>(lanes[lane]);
            to->result = static_cast<Shuffle *>(lanes[lane ^ to->mask])->value;
        }
    };
    emulate::warp_collective(operation, &own);
    return own.result;
}

// --- Number formats ---

DEVICE uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

DEVICE float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

DEVICE float to_float(float value) { return value; }
DEVICE float to_float(bf16 value) { return float_of(uint32_t(value.bits) << 16); }
DEVICE float to_float(f16 value) { return emulate::f16_to_float(value.bits); }

template <typename T>
DEVICE T from_float(float value);

template <>
inline float from_float<float>(float value) {
    return value;
}

template <>
inline f16 from_float<f16>(float value) {
    value = value > 65504.0f ? 65504.0f : value;
    value = value < -65504.0f ? -65504.0f : value;
    return f16{emulate::float_to_f16(value)};
}

template <>
inline bf16 from_float<bf16>(float value) {
    const uint32_t bits = bits_of(value);
    if (value != value) {
        return bf16{0x7fff};
    }
    return bf16{uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

/// Packs two 2-byte numbers into a word, the first into its lower half.
template <typename T>
DEVICE uint32_t pack_pair(float first, float second) {
    return uint32_t(from_float<T>(first).bits) | uint32_t(from_float<T>(second).bits) << 16;
}

DEVICE float exp2_approx(float value) { return exp2f(value); }
DEVICE float reciprocal_approx(float value) { return 1.0f / value; }
DEVICE float fma_f32(float a, float b, float c) { return fmaf(a, b, c); }

// --- Copies to shared memory ---

DEVICE void copy_async(void *to, const void *from, int valid) { emulate::copy(to, from, valid); }
DEVICE void copy_commit() { emulate::commit(); }

template <int groups>
DEVICE void copy_wait() {
    emulate::wait(groups);
}

// --- Tensor cores ---

struct Matrices {
    uint32_t *to;
    const unsigned char *row;
};

template <bool transposed>
DEVICE void load_matrices_as(uint32_t (&to)[4], const void *row) {
    Matrices own{to, static_cast<const unsigned char *>(row)};
    const auto operation = [](void *const (&lanes)[32]) {
        for (int matrix = 0; matrix < 4; matrix++) {
            uint16_t values[8][8];
            for (int row = 0; row < 8; row++) {
                const auto from = static_cast<Matrices *>(lanes[matrix * 8 + row])->row;
                if (reinterpret_cast<uintptr_t>(from) % 16 != 0) {
                    emulate::fail("a row of a matrix is not aligned to 16 bytes");
                }
                std::memcpy(values[row], from, 16);
            }
            for (int lane = 0; lane < 32; lane++) {
                const int g = lane / 4, t = lane % 4;
                const uint16_t low = transposed ? values[2 * t][g] : values[g][2 * t];
                const uint16_t high = transposed ? values[2 * t + 1][g] : values[g][2 * t + 1];
                static_cast<Matrices *>(lanes[lane])->to[matrix] = uint32_t(low) | uint32_t(high) << 16;
            }
        }
    };
    emulate::warp_collective(operation, &own);
}

DEVICE void load_matrices(uint32_t (&to)[4], const void *row) { load_matrices_as<false>(to, row); }
DEVICE void load_matrices_transposed(uint32_t (&to)[4], const void *row) { load_matrices_as<true>(to, row); }

struct Fragments {
    float *c;
    const uint32_t *a;
    const uint32_t *b;
};

/// Unpacks the numbers of a format from a word of a fragment.
template <typename Number>
struct Unpack {
    static constexpr int PER_WORD = 2;
    static float get(uint32_t word, int index) { return to_float(Number{uint16_t(word >> (index * 16))}); }
};

template <>
struct Unpack<tf32> {
    static constexpr int PER_WORD = 1;
    // To the nearest number, ties away from zero.
    static float get(uint32_t word, int) { return float_of((word + 0x1000) & ~0x1fffu); }
};

template <typename Number>
DEVICE void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t *b) {
    Fragments own{c, a, b};
    const auto operation = [](void *const (&lanes)[32]) {
        constexpr int PER_WORD = Unpack<Number>::PER_WORD;
        constexpr int HALF = 4 * PER_WORD;
        float left[16][2 * HALF], right[8][2 * HALF];
        for (int lane = 0; lane < 32; lane++) {
            const auto own = static_cast<Fragments *>(lanes[lane]);
            const int g = lane / 4, t = lane % 4;
            for (int i = 0; i < PER_WORD; i++) {
                const int k = t * PER_WORD + i;
                left[g][k] = Unpack<Number>::get(own->a[0], i);
                left[g + 8][k] = Unpack<Number>::get(own->a[1], i);
                left[g][k + HALF] = Unpack<Number>::get(own->a[2], i);
                left[g + 8][k + HALF] = Unpack<Number>::get(own->a[3], i);
                right[g][k] = Unpack<Number>::get(own->b[0], i);
                right[g][k + HALF] = Unpack<Number>::get(own->b[1], i);
            }
        }
        for (int lane = 0; lane < 32; lane++) {
            const auto own = static_cast<Fragments *>(lanes[lane]);
            for (int i = 0; i < 4; i++) {
                const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
                double sum = own->c[i];
                for (int k = 0; k < 2 * HALF; k++) {
                    sum += double(left[row][k]) * double(right[column][k]);
                }
                own->c[i] = float(sum);
            }
        }
    };
    emulate::warp_collective(operation, &own);
}
