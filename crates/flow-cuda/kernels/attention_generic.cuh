// Attention within each text, on the ordinary units: for 32-bit floats, and for heads of any width.
//
// A block takes 16 queries of one head, each of its warps some of them, one after the other. A warp goes along the
// text's keys, 32 at a time, a key for each lane; then along their values, a few columns for each lane. The soft-max is
// that of attention.cuh.
#pragma once

#include "attention.cuh"

constexpr int ANY_WARPS = 4;
/// The widest head; no known model has one of more than 128.
constexpr int ANY_WIDTH_MAX = 256;
constexpr int ANY_COLUMNS = ANY_WIDTH_MAX / 32;

struct AttentionAnyShared {
    // Of each warp.
    float query[ANY_WARPS][ANY_WIDTH_MAX];
    float weights[ANY_WARPS][STEP_KEYS];
};

template <typename T>
struct AttentionAny {
    const AttentionParameters &p;
    const Tile tile;
    const int head;
    float (&query)[ANY_WIDTH_MAX];
    float (&weights)[STEP_KEYS];

    DEVICE_MEMBER const T *part(int token, int which) {
        const size_t row = size_t(tile.text + token) * p.states_stride;
        return static_cast<const T *>(p.states) + row + (which * p.heads + head) * p.width;
    }

    /// The product of the query and a key.
    DEVICE_MEMBER float product(int key) {
        constexpr int CHUNK = 16 / sizeof(T);
        const T *values = part(key, 1);
        float sum = 0.0f;
        if (p.width % CHUNK == 0) {
            for (int column = 0; column < p.width; column += CHUNK) {
                const auto chunk = *reinterpret_cast<const Group<T, CHUNK> *>(values + column);
                UNROLL for (int i = 0; i < CHUNK; i++) {
                    sum = fused(query[column + i], widen(chunk.values[i]), sum);
                }
            }
        } else {
            for (int column = 0; column < p.width; column++) {
                sum = fused(query[column], widen(values[column]), sum);
            }
        }
        return sum;
    }

    DEVICE_MEMBER void answer(int number) {
        const int lane = lane_number();
        warp_sync(); // All are done with the query before.
        for (int column = lane; column < p.width; column += 32) {
            query[column] = widen(part(number, 0)[column]) * p.scale;
        }
        warp_sync();
        float largest = -INFINITY, total = 0.0f, out[ANY_COLUMNS] = {};
        for (int first = 0; first < tile.tokens; first += STEP_KEYS) {
            const int key = first + lane, count = at_most(tile.tokens - first, STEP_KEYS);
            float exponent = -INFINITY;
            if (lane < count) {
                exponent = product(key);
                if (p.distances != nullptr) {
                    exponent += p.distances[size_t(head) * (2 * p.span - 1) + p.span - 1 + key - number];
                }
            }
            const float high = larger(largest, warp_max(exponent));
            const float less = expf(largest - high), weight = expf(exponent - high);
            largest = high;
            total = total * less + warp_sum(weight);
            weights[lane] = weight;
            warp_sync();
            gather(first, count, less, out);
            warp_sync(); // All are done with the weights.
        }
        T *to = static_cast<T *>(p.context) + size_t(tile.text + number) * p.context_stride + head * p.width;
        UNROLL for (int i = 0; i < ANY_COLUMNS; i++) {
            const int column = lane + i * 32;
            if (column < p.width) {
                to[column] = narrow<T>(out[i] / total);
            }
        }
    }

    /// Adds values by their weights.
    DEVICE_MEMBER void gather(int first, int count, float less, float (&out)[ANY_COLUMNS]) {
        UNROLL for (int i = 0; i < ANY_COLUMNS; i++) {
            out[i] *= less;
        }
        for (int key = 0; key < count; key++) {
            const T *values = part(first + key, 2);
            UNROLL for (int i = 0; i < ANY_COLUMNS; i++) {
                const int column = lane_number() + i * 32;
                if (column < p.width) {
                    out[i] = fused(weights[key], widen(values[column]), out[i]);
                }
            }
        }
    }

    DEVICE_MEMBER void run() {
        const int end = at_most(tile.query + TILE_QUERIES, tile.tokens);
        for (int number = tile.query + warp_number(); number < end; number += ANY_WARPS) {
            answer(number);
        }
    }
};

template <typename T>
DEVICE void attend_any(const AttentionParameters &p, AttentionAnyShared &shared) {
    const int number = block_x(), warp = warp_number();
    AttentionAny<T> attention{p, p.tiles[number % p.tile_count], number / p.tile_count, shared.query[warp],
                              shared.weights[warp]};
    attention.run();
}
