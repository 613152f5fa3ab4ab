// Matrix products on tensor cores: C = f(A × Bᵀ + bias) + residual.
//
// A has the rows of states, B one row for each column of C, as PyTorch keeps weights. A block computes a tile of
// C. It goes along both matrices 64 bytes at a time, in stages: while one is multiplied, the next two are on
// their way into shared memory (cp.async; the scheme is CUTLASS's "multistage" main loop). In shared memory a
// row of a stage is four chunks of 16 bytes, swizzled so that ldmatrix meets no bank twice.
//
// In bytes, numbers of 2 bytes and TF32 look the same to all of this but `multiply`, so there is one loop.
// Each value of C is one sum in one order, whatever tile it is in: a row gets the same values alone and beside others.
#pragma once

#include "device.cuh"

enum Activation : int32_t { NONE = 0, GELU = 1, GELU_TANH = 2, RELU = 3 };

struct ProductParameters {
    const void *a;
    const void *b;
    const float *bias;    // or null
    const void *residual; // or null; as C
    void *c;
    // Of C, and of what is summed over.
    int32_t rows, columns, depth;
    // Numbers from one row to the next: a multiple of 16 bytes.
    int32_t a_stride, b_stride, c_stride;
    int32_t activation;
};

constexpr int STAGES = 3;
constexpr int STEP_BYTES = 64;

template <int activation>
DEVICE float activate(float x) {
    if (activation == GELU) {
        return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    }
    if (activation == GELU_TANH) {
        return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    }
    return activation == RELU && x < 0.0f ? 0.0f : x;
}

/// Makes of sums that lie beside each other in a row of C what belongs there, and puts it there. `column` is a
/// multiple of `count`.
template <typename T, int activation, int count>
DEVICE void finish(const ProductParameters &p, int row, int column, const float *sums) {
    if (row >= p.rows || column >= p.columns) {
        return;
    }
    using Values = Group<T, count>;
    // Rows of C are filled up to whole groups, so only the bias must not be read beyond the last column.
    const size_t place = size_t(row) * p.c_stride + column;
    Values before = {}, after;
    if (p.residual != nullptr) {
        before = *reinterpret_cast<const Values *>(static_cast<const T *>(p.residual) + place);
    }
    UNROLL for (int i = 0; i < count; i++) {
        const bool has_bias = p.bias != nullptr && column + i < p.columns;
        float value = activate<activation>(sums[i] + (has_bias ? p.bias[column + i] : 0.0f));
        value += p.residual != nullptr ? widen(before.values[i]) : 0.0f;
        after.values[i] = narrow<T>(value);
    }
    *reinterpret_cast<Values *>(static_cast<T *>(p.c) + place) = after;
}

template <int rows, int columns>
struct ProductShared {
    unsigned char a[STAGES][rows * STEP_BYTES];
    unsigned char b[STAGES][columns * STEP_BYTES];
};

/// A tile of `tile_rows` × `tile_columns` of C, by warps that each have `warp_rows` × `warp_columns` of it.
template <typename Number, int tile_rows, int tile_columns, int warp_rows, int warp_columns>
struct Product {
    using T = typename Lies<Number>::In;
    using Shared = ProductShared<tile_rows, tile_columns>;
    static constexpr int WARPS_ACROSS = tile_columns / warp_columns;
    static constexpr int THREADS = tile_rows / warp_rows * WARPS_ACROSS * 32;
    static constexpr int STEP = STEP_BYTES / sizeof(T);
    static constexpr int CHUNK = 16 / sizeof(T);
    static constexpr int HIGH = warp_rows / 16;
    static constexpr int WIDE = warp_columns / 8;

    const ProductParameters &p;
    Shared &shared;
    const int first_row, first_column;

    /// Begins to copy a stage of one matrix. What lies outside of it becomes 0.
    template <int tile>
    DEVICE_MEMBER void fetch(unsigned char *to, const void *matrix, int stride, int first, int count, int start) {
        UNROLL for (int i = 0; i < tile * 4 / THREADS; i++) {
            const int number = thread_number() + i * THREADS;
            const int row = number / 4, chunk = number % 4;
            const int from = start + chunk * CHUNK;
            const int left = first + row < count ? between(p.depth - from, 0, CHUNK) : 0;
            const T *values = static_cast<const T *>(matrix);
            values += left > 0 ? size_t(first + row) * stride + from : 0;
            copy_async(to + swizzled<STEP_BYTES>(row, chunk), values, left * int(sizeof(T)));
        }
    }

    DEVICE_MEMBER void fetch_step(int step) {
        if (step * STEP < p.depth) {
            const int stage = step % STAGES;
            fetch<tile_rows>(shared.a[stage], p.a, p.a_stride, first_row, p.rows, step * STEP);
            fetch<tile_columns>(shared.b[stage], p.b, p.b_stride, first_column, p.columns, step * STEP);
        }
        // Also where there is nothing left, so that a group is always a step.
        copy_commit();
    }

    /// Multiplies what one stage has for this warp.
    DEVICE_MEMBER void multiply_stage(int stage, float (&sums)[HIGH][WIDE][4]) {
        const int lane = lane_number();
        const int top = warp_number() / WARPS_ACROSS * warp_rows;
        const int left = warp_number() % WARPS_ACROSS * warp_columns;
        UNROLL for (int half = 0; half < 2; half++) {
            uint32_t a[HIGH][4], b[WIDE / 2][4];
            UNROLL for (int i = 0; i < HIGH; i++) {
                const int row = top + i * 16 + (lane & 15);
                load_matrices(a[i], shared.a[stage] + swizzled<STEP_BYTES>(row, half * 2 + (lane >> 4)));
            }
            UNROLL for (int j = 0; j < WIDE / 2; j++) {
                const int row = left + j * 16 + (lane & 7) + (lane >> 4) * 8;
                load_matrices(b[j], shared.b[stage] + swizzled<STEP_BYTES>(row, half * 2 + ((lane >> 3) & 1)));
            }
            UNROLL for (int i = 0; i < HIGH; i++) {
                UNROLL for (int j = 0; j < WIDE; j++) {
                    multiply<Number>(sums[i][j], a[i], b[j / 2] + j % 2 * 2);
                }
            }
        }
    }

    template <int activation>
    DEVICE_MEMBER void store(const float (&sums)[HIGH][WIDE][4]) {
        const int lane = lane_number();
        const int top = first_row + warp_number() / WARPS_ACROSS * warp_rows + lane / 4;
        const int left = first_column + warp_number() % WARPS_ACROSS * warp_columns + lane % 4 * 2;
        UNROLL for (int i = 0; i < HIGH; i++) {
            UNROLL for (int j = 0; j < WIDE; j++) {
                finish<T, activation, 2>(p, top + i * 16, left + j * 8, sums[i][j]);
                finish<T, activation, 2>(p, top + i * 16 + 8, left + j * 8, sums[i][j] + 2);
            }
        }
    }

    DEVICE_MEMBER void run() {
        float sums[HIGH][WIDE][4] = {};
        const int steps = (p.depth + STEP - 1) / STEP;
        UNROLL for (int step = 0; step < STAGES - 1; step++) {
            fetch_step(step);
        }
        for (int step = 0; step < steps; step++) {
            copy_wait<STAGES - 2>();
            // All have their copies of this step, and are done with the step before, whose place is free now.
            block_sync();
            fetch_step(step + STAGES - 1);
            multiply_stage(step % STAGES, sums);
        }
        switch (p.activation) {
        case GELU:
            return store<GELU>(sums);
        case GELU_TANH:
            return store<GELU_TANH>(sums);
        case RELU:
            return store<RELU>(sums);
        default:
            return store<NONE>(sums);
        }
    }
};
