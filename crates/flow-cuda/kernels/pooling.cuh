// From the states of a text's tokens to its vector, as sentence-transformers does it. A block takes a text, each of its
// threads some of the vector's values.
#pragma once

#include "device.cuh"

enum Pooling : uint32_t { CLS, MEAN, MAX, MIN, MEAN_SQRT_LENGTH, WEIGHTED_MEAN, LAST_TOKEN };

/// A text, as its first token and how many there are.
struct Text {
    int32_t first, tokens;
};

struct PoolParameters {
    const void *states;
    const Text *texts;
    float *vectors;
    // Ways to pool, four bits each, the first lowest; what each gives is put one after the other.
    uint32_t modes;
    int32_t width, stride;
    // Values that are kept of what all ways give.
    int32_t vector_width;
    // Tokens at each text's start that do not count.
    int32_t skipped;
    int32_t normalize;
};

constexpr int POOL_THREADS = 128;
/// What keeps a division by a vector's length from failing; the same as in PyTorch.
constexpr float LENGTH_MIN = 1e-12f;

struct PoolShared {
    float squares[POOL_THREADS / 32];
};

/// One value of one way to pool. A text of which nothing counts has nothing to divide, and one without tokens has
/// nothing at all.
template <typename T>
DEVICE float pool_value(uint32_t mode, const T *column, int stride, int tokens, int skipped) {
    if (tokens == 0) {
        return 0.0f;
    }
    if (mode == CLS || mode == LAST_TOKEN) {
        const int token = mode == LAST_TOKEN ? tokens - 1 : skipped < tokens ? skipped : 0;
        return widen(column[size_t(token) * stride]);
    }
    float value = mode == MAX ? -INFINITY : mode == MIN ? INFINITY : 0.0f, weights = 0.0f;
    UNROLL_4 for (int token = skipped; token < tokens; token++) {
        const float state = widen(column[size_t(token) * stride]);
        const float weight = mode == WEIGHTED_MEAN ? float(token + 1) : 1.0f;
        if (mode == MAX) {
            value = larger(value, state);
        } else if (mode == MIN) {
            value = state < value ? state : value;
        } else {
            value = fused(weight, state, value);
            weights += weight;
        }
    }
    const float by = mode == MEAN_SQRT_LENGTH ? sqrtf(weights) : weights;
    return by > 0.0f ? value / by : value;
}

template <typename T>
DEVICE void pool(const PoolParameters &p, PoolShared &shared) {
    const Text text = p.texts[block_x()];
    const T *states = static_cast<const T *>(p.states) + size_t(text.first) * p.stride;
    float *vector = p.vectors + size_t(block_x()) * p.vector_width;
    float squares = 0.0f;
    for (int at = thread_number(); at < p.vector_width; at += POOL_THREADS) {
        const uint32_t mode = p.modes >> (at / p.width * 4) & 15;
        const float value = pool_value(mode, states + at % p.width, p.stride, text.tokens, p.skipped);
        squares = fused(value, value, squares);
        vector[at] = value;
    }
    if (p.normalize == 0) {
        return;
    }
    squares = warp_sum(squares);
    if (lane_number() == 0) {
        shared.squares[warp_number()] = squares;
    }
    block_sync();
    float sum = 0.0f;
    UNROLL for (int warp = 0; warp < POOL_THREADS / 32; warp++) {
        sum += shared.squares[warp];
    }
    const float length = larger(sqrtf(sum), LENGTH_MIN);
    for (int at = thread_number(); at < p.vector_width; at += POOL_THREADS) {
        vector[at] /= length; // Each thread what it has written itself.
    }
}
