// Pooling: turns the hidden states of a text into its vector, as sentence-transformers does. A block processes a text, and each
// of its threads some of the vector's values.
#pragma once

#include "device.cuh"

/// The modes of sentence-transformers, with the numbers of `PoolingMode` in src/pooling.rs.
enum PoolingMode : uint32_t { CLS, MEAN, MAX, MIN, MEAN_SQRT_LENGTH, WEIGHTED_MEAN, LAST_TOKEN };

/// A text: the index of its first token, and its number of tokens.
struct Text {
    int32_t first, tokens;
};

struct PoolParams {
    const void *states;
    const Text *texts;
    float *vectors;
    // Modes whose results are concatenated: four bits each, the first mode in the lowest bits.
    uint32_t mode_bits;
    int32_t width, stride;
    // Leading values of the concatenated results that are kept.
    int32_t vector_width;
    // Leading tokens of each text that are not pooled.
    int32_t skipped_tokens;
    int32_t normalize;
};

constexpr int POOL_THREADS = 128;
/// Tokens whose states a thread loads at once, so that it waits for memory once and not for each.
constexpr int POOL_STEP = 16;
/// Minimum divisor of a normalization, as in PyTorch.
constexpr float NORM_MIN = 1e-12f;

struct PoolShared {
    float squares[POOL_THREADS / 32];
};

/// One value of the result of one mode. It is zero if no token is pooled.
template <typename T>
DEVICE float pool_value(uint32_t mode, const T *column, int stride, int tokens, int skipped_tokens) {
    if (tokens == 0) {
        return 0.0f;
    }
    if (mode == CLS || mode == LAST_TOKEN) {
        const int token = mode == LAST_TOKEN ? tokens - 1 : skipped_tokens < tokens ? skipped_tokens : 0;
        return to_float(column[size_t(token) * stride]);
    }
    float value = mode == MAX ? -INFINITY : mode == MIN ? INFINITY : 0.0f, total_weight = 0.0f;
    for (int first = skipped_tokens; first < tokens; first += POOL_STEP) {
        float states[POOL_STEP];
        UNROLL for (int i = 0; i < POOL_STEP; i++) {
            states[i] = to_float(column[size_t(min_int(first + i, tokens - 1)) * stride]);
        }
        UNROLL for (int i = 0; i < POOL_STEP; i++) {
            if (first + i >= tokens) {
                break;
            }
            const float weight = mode == WEIGHTED_MEAN ? float(first + i + 1) : 1.0f;
            if (mode == MAX) {
                value = max_float(value, states[i]);
            } else if (mode == MIN) {
                value = states[i] < value ? states[i] : value;
            } else {
                value = fma_f32(weight, states[i], value);
                total_weight += weight;
            }
        }
    }
    const float divisor = mode == MEAN_SQRT_LENGTH ? sqrtf(total_weight) : total_weight;
    return divisor > 0.0f ? value / divisor : value;
}

template <typename T>
DEVICE void pool(const PoolParams &p, PoolShared &shared) {
    const Text text = p.texts[block_x()];
    const T *states = static_cast<const T *>(p.states) + size_t(text.first) * p.stride;
    float *vector = p.vectors + size_t(block_x()) * p.vector_width;
    float squares = 0.0f;
    for (int index = thread_index(); index < p.vector_width; index += POOL_THREADS) {
        const uint32_t mode = p.mode_bits >> (index / p.width * 4) & 15;
        const float value = pool_value(mode, states + index % p.width, p.stride, text.tokens, p.skipped_tokens);
        squares = fma_f32(value, value, squares);
        vector[index] = value;
    }
    if (p.normalize == 0) {
        return;
    }
    squares = warp_sum(squares);
    if (lane_index() == 0) {
        shared.squares[warp_index()] = squares;
    }
    block_sync();
    float sum = 0.0f;
    UNROLL for (int warp = 0; warp < POOL_THREADS / 32; warp++) {
        sum += shared.squares[warp];
    }
    const float norm = max_float(sqrtf(sum), NORM_MIN);
    for (int index = thread_index(); index < p.vector_width; index += POOL_THREADS) {
        vector[index] /= norm; // Each thread normalizes the values that it has written.
    }
}
