// What torch's own kernels leave on the table when a model writes token by token: few rows multiplied by packed
// weights, and few queries that look at many keys.
//
// Plain C functions over plain arrays: no header but the compiler's, so it is built in seconds, by any C++17 compiler
// on x86-64. Each function has a path for AVX-512 with VNNI and one for AVX2, chosen when it runs. Threads are
// OpenMP's, from the library that torch has loaded, so both share one pool.

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")))
#define AVX2 __attribute__((target("avx2,fma")))

namespace {

constexpr int64_t PANEL = 64;       // outputs whose weights stand together: [panel][inputs / 4][64][4]
constexpr int64_t QUAD = 4;         // inputs that one instruction multiplies and adds up
constexpr int64_t CHUNK = 48;       // rows that stay near while a panel is read
constexpr int64_t ALONE = 1 << 18;  // products below which a second thread costs more than it brings

enum Level { NONE = 0, WITH_AVX2 = 1, WITH_VNNI = 2 };

Level find_level() {
  static const Level level = [] {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
      return WITH_VNNI;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? WITH_AVX2 : NONE;
  }();
  return level;
}

int64_t round_up(int64_t number, int64_t step) { return (number + step - 1) / step * step; }

// What stands for one row of the input: its largest number is `levels`, and `zero` stands for 0.
struct Scaling {
  int levels;
  int zero;
};

// ---- rows to whole numbers: p = round(x / size) + zero, where size = max |x| / levels

AVX512 float quantise_avx512(const float* x, int64_t count, uint8_t* out, Scaling how) {
  __m512 most = _mm512_setzero_ps();
  __mmask16 odd = 0;
  int64_t i = 0;
  for (; i < count; i += 16) {
    const __mmask16 there = count - i >= 16 ? 0xffff : (1u << (count - i)) - 1;
    const __m512 v = _mm512_maskz_loadu_ps(there, x + i);
    odd |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    most = _mm512_max_ps(most, _mm512_abs_ps(v));
  }
  const float least = std::numeric_limits<float>::min() * 127;
  float size = _mm512_reduce_max_ps(most);
  size = (size < least ? least : size) / static_cast<float>(how.levels);
  const __m512 by = _mm512_set1_ps(size);
  const __m512i zero = _mm512_set1_epi32(how.zero);
  for (i = 0; i < count; i += 16) {
    const __mmask16 there = count - i >= 16 ? 0xffff : (1u << (count - i)) - 1;
    const __m512 v = _mm512_div_ps(_mm512_maskz_loadu_ps(there, x + i), by);
    const __m512i whole = _mm512_add_epi32(_mm512_cvtps_epi32(v), zero);
    _mm_mask_storeu_epi8(out + i, there, _mm512_cvtepi32_epi8(whole));
  }
  return odd ? std::numeric_limits<float>::quiet_NaN() : size;
}

AVX2 float quantise_avx2(const float* x, int64_t count, uint8_t* out, Scaling how) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 most = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    odd = _mm256_or_ps(odd, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    most = _mm256_max_ps(most, _mm256_andnot_ps(sign, v));
  }
  alignas(32) float held[8];
  _mm256_store_ps(held, most);
  float size = 0.0f;
  for (const float one : held) size = one > size ? one : size;
  bool broken = _mm256_movemask_ps(odd) != 0;
  for (int64_t j = i; j < count; ++j) {
    broken = broken || std::isnan(x[j]);
    size = std::fabs(x[j]) > size ? std::fabs(x[j]) : size;
  }
  const float least = std::numeric_limits<float>::min() * 127;
  size = (size < least ? least : size) / static_cast<float>(how.levels);
  const __m256 by = _mm256_set1_ps(size);
  const __m256i zero = _mm256_set1_epi32(how.zero);
  for (i = 0; i + 8 <= count; i += 8) {
    const __m256i whole = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_div_ps(_mm256_loadu_ps(x + i), by)), zero);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i), _mm_packus_epi16(words, words));
  }
  for (; i < count; ++i) out[i] = static_cast<uint8_t>(static_cast<int>(std::nearbyintf(x[i] / size)) + how.zero);
  return broken ? std::numeric_limits<float>::quiet_NaN() : size;
}

// ---- a tile: ROWS rows by one panel of outputs

struct Panel {
  const int8_t* weights;  // [quads][64][4]
  const int32_t* sums;    // of the weights of each output, to take the rows' zero out again
  const float* scale;
  const float* bias;  // or none
  int64_t quads;
  int64_t outputs;  // 64, or fewer in the last panel
};

// sums += four products of each output: a destructive instruction, which GCC would copy its operands for
#define ADD(sums, four, weights) asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(four), "v"(weights))
// arrays of registers end up in memory, so each row of a tile has four names
#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)
#define EMPTY(r) __m512i a##r = none, b##r = none, c##r = none, d##r = none;
#define STEP(r)                                 \
  if (ROWS > r) {                               \
    int32_t four;                               \
    std::memcpy(&four, x + r * stride + at, 4); \
    const __m512i v = _mm512_set1_epi32(four);  \
    ADD(a##r, v, w0);                           \
    ADD(b##r, v, w1);                           \
    ADD(c##r, v, w2);                           \
    ADD(d##r, v, w3);                           \
  }
#define WRITE(r)                                             \
  if (ROWS > r) {                                            \
    const __m512i sums[4] = {a##r, b##r, c##r, d##r};        \
    write_avx512(sums, sizes[r], panel, zero, y + r * step); \
  }

// Whole sums of one row and a panel to numbers: ((sum - zero · Σ weights) · scale) · size + bias.
AVX512 void write_avx512(const __m512i* sums, float size, const Panel& panel, int zero, float* y) {
  for (int b = 0; b < 4; ++b) {
    const int64_t left = panel.outputs - b * 16;
    if (left <= 0) return;
    const __mmask16 there = left >= 16 ? 0xffff : (1u << left) - 1;
    const __m512i off =
        _mm512_mullo_epi32(_mm512_maskz_loadu_epi32(there, panel.sums + b * 16), _mm512_set1_epi32(zero));
    const __m512 scale = _mm512_maskz_loadu_ps(there, panel.scale + b * 16);
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(sums[b], off)), scale);
    v = _mm512_mul_ps(v, _mm512_set1_ps(size));
    if (panel.bias) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(there, panel.bias + b * 16));
    _mm512_mask_storeu_ps(y + b * 16, there, v);
  }
}

template <int ROWS>
AVX512 void tile_avx512(const uint8_t* x, int64_t stride, const float* sizes, const Panel& panel, int zero, float* y,
                        int64_t step) {
  const __m512i none = _mm512_setzero_si512();
  EACH_ROW(EMPTY)
  const int8_t* w = panel.weights;
  for (int64_t at = 0; at < panel.quads * QUAD; at += QUAD, w += PANEL * QUAD) {
    const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64);
    const __m512i w2 = _mm512_loadu_si512(w + 128), w3 = _mm512_loadu_si512(w + 192);
    EACH_ROW(STEP)
  }
  EACH_ROW(WRITE)
}

template <int ROWS>
AVX2 void tile_avx2(const uint8_t* x, int64_t stride, const float* sizes, const Panel& panel, int zero, float* y,
                    int64_t step) {
  const __m256i ones = _mm256_set1_epi16(1);
  for (int part = 0; part < 2 && panel.outputs > part * 32; ++part) {  // sixteen registers hold half a panel
    __m256i sum[ROWS][4];
    for (int r = 0; r < ROWS; ++r)
      for (int b = 0; b < 4; ++b) sum[r][b] = _mm256_setzero_si256();
    const int8_t* w = panel.weights + part * 32 * QUAD;
    for (int64_t q = 0; q < panel.quads; ++q, w += PANEL * QUAD) {
      for (int r = 0; r < ROWS; ++r) {
        int32_t four;
        std::memcpy(&four, x + r * stride + q * QUAD, 4);
        const __m256i v = _mm256_set1_epi32(four);
        for (int b = 0; b < 4; ++b) {
          const __m256i held = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + b * 32));
          sum[r][b] = _mm256_add_epi32(sum[r][b], _mm256_madd_epi16(_mm256_maddubs_epi16(v, held), ones));
        }
      }
    }
    for (int r = 0; r < ROWS; ++r) {
      alignas(32) int32_t held[32];
      for (int b = 0; b < 4; ++b) _mm256_store_si256(reinterpret_cast<__m256i*>(held + b * 8), sum[r][b]);
      const int64_t first = part * 32, count = panel.outputs - first < 32 ? panel.outputs - first : 32;
      for (int64_t j = 0; j < count; ++j) {
        float v = static_cast<float>(held[j] - zero * panel.sums[first + j]) * panel.scale[first + j];
        v = v * sizes[r];
        y[r * step + first + j] = panel.bias ? v + panel.bias[first + j] : v;
      }
    }
  }
}

using Tile = void (*)(const uint8_t*, int64_t, const float*, const Panel&, int, float*, int64_t);
constexpr Tile TILES_AVX512[] = {tile_avx512<1>, tile_avx512<2>, tile_avx512<3>,
                                 tile_avx512<4>, tile_avx512<5>, tile_avx512<6>};
constexpr Tile TILES_AVX2[] = {tile_avx2<1>, tile_avx2<2>};

// ---- attention of a few queries: softmax(q kᵀ · scale) v, head by head

struct Heads {
  int64_t rows, heads, groups, queries, keys, size;
  const float* query;  // (rows, heads, queries, size)
  const float* key;    // (rows, groups, keys, size), and so is value
  const float* value;
  const bool* allowed;   // (rows, 1, queries, keys), or none
  const int64_t* moved;  // (rows, keys), the row in which each key and value stands, or none
  float* out;            // (rows, queries, heads, size)
  // from one row, head and position to the next; numbers of a head stand side by side
  int64_t query_row, query_head, query_step, key_row, key_head, key_step, value_row, value_head, value_step;
  int64_t allowed_row, allowed_query, allowed_key, moved_row;
  float scale;
};

// e^x for x from -87 to 0: 2^n · e^r, where |r| is at most ln 2 / 2, by the polynomial of Cephes (Moshier); the error is
// below two units of the last place.
#define EXPONENTIAL(V, x, SET, MUL, ROUND, FNMADD, FMADD, TO_WHOLE, ADD_WHOLE, SHIFT, CAST, CAST_BACK) \
  {                                                                                                    \
    const V n = ROUND(MUL(x, SET(1.44269504088896341f)));                                              \
    const V r = FNMADD(n, SET(-2.12194440e-4f), FNMADD(n, SET(0.693359375f), x));                      \
    V p = FMADD(SET(1.9875691500e-4f), r, SET(1.3981999507e-3f));                                      \
    p = FMADD(p, r, SET(8.3334519073e-3f));                                                            \
    p = FMADD(p, r, SET(4.1665795894e-2f));                                                            \
    p = FMADD(p, r, SET(1.6666665459e-1f));                                                            \
    p = FMADD(p, r, SET(5.0000001201e-1f));                                                            \
    p = FMADD(FMADD(p, r, SET(1.0f)), r, SET(1.0f));                                                   \
    x = CAST_BACK(ADD_WHOLE(CAST(p), SHIFT(TO_WHOLE(n), 23)));                                         \
  }
#define ROUND_512(x) _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define ROUND_256(x) _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

// A query that may look at nothing sees zeros, as torch has it.
float blank(float* scores, int64_t count) {
  for (int64_t t = 0; t < count; ++t) scores[t] = std::isnan(scores[t]) ? scores[t] : 0.0f;
  return 1.0f;
}

// Weights of one query from its scores, in place: e^(score - largest), and what they must be divided by. `scores` has
// room for a whole register behind the last.
AVX512 float weigh_avx512(float* scores, int64_t count) {
  __m512 most = _mm512_set1_ps(-INFINITY);
  for (int64_t t = 0; t < count; t += 16) {
    const __mmask16 there = count - t >= 16 ? 0xffff : (1u << (count - t)) - 1;
    most = _mm512_max_ps(most, _mm512_mask_loadu_ps(most, there, scores + t));
  }
  const float largest = _mm512_reduce_max_ps(most);
  if (largest == -INFINITY) return blank(scores, count);
  const __m512 top = _mm512_set1_ps(largest), least = _mm512_set1_ps(-87.0f);
  __m512 total = _mm512_setzero_ps();
  for (int64_t t = 0; t < count; t += 16) {
    const __mmask16 there = count - t >= 16 ? 0xffff : (1u << (count - t)) - 1;
    const __m512 given = _mm512_sub_ps(_mm512_loadu_ps(scores + t), top);
    const __mmask16 counts = there & _mm512_cmp_ps_mask(given, least, _CMP_NLT_UQ);  // what is no number counts as such
    __m512 x = given;
    EXPONENTIAL(__m512, x, _mm512_set1_ps, _mm512_mul_ps, ROUND_512, _mm512_fnmadd_ps, _mm512_fmadd_ps,
                _mm512_cvtps_epi32, _mm512_add_epi32, _mm512_slli_epi32, _mm512_castps_si512, _mm512_castsi512_ps)
    x = _mm512_maskz_mov_ps(counts, x);
    x = _mm512_mask_mov_ps(x, there & _mm512_cmp_ps_mask(given, given, _CMP_UNORD_Q), given);
    _mm512_storeu_ps(scores + t, x);
    total = _mm512_add_ps(total, x);
  }
  return _mm512_reduce_add_ps(total);
}

// The weighted sum of the values, BLOCKS registers of it at once.
template <int BLOCKS>
AVX512 void gather_avx512(const Heads& all, const float* scores, const float* values, int64_t row, const int64_t* from,
                          float share, float* out) {
  __m512 sum[BLOCKS];
#pragma GCC unroll 4
  for (int b = 0; b < BLOCKS; ++b) sum[b] = _mm512_setzero_ps();
  for (int64_t t = 0; t < all.keys; ++t) {
    const __m512 weight = _mm512_set1_ps(scores[t]);
    const float* near = values + (from ? from[t] : row) * all.value_row + t * all.value_step;
#pragma GCC unroll 4
    for (int b = 0; b < BLOCKS; ++b) sum[b] = _mm512_fmadd_ps(weight, _mm512_loadu_ps(near + b * 16), sum[b]);
  }
#pragma GCC unroll 4
  for (int b = 0; b < BLOCKS; ++b) _mm512_storeu_ps(out + b * 16, _mm512_mul_ps(sum[b], _mm512_set1_ps(share)));
}

// log Σ e^x of a row
AVX512 float total_avx512(const float* x, int64_t count) {
  __m512 most = _mm512_set1_ps(-INFINITY);
  __mmask16 odd = 0;
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 there = count - i >= 16 ? 0xffff : (1u << (count - i)) - 1;
    const __m512 v = _mm512_mask_loadu_ps(most, there, x + i);
    odd |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    most = _mm512_max_ps(most, v);
  }
  const float largest = _mm512_reduce_max_ps(most);
  if (odd) return NAN;
  if (std::isinf(largest)) return largest;
  const __m512 top = _mm512_set1_ps(largest), least = _mm512_set1_ps(-87.0f);
  __m512 total = _mm512_setzero_ps();
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 there = count - i >= 16 ? 0xffff : (1u << (count - i)) - 1;
    __m512 v = _mm512_sub_ps(_mm512_maskz_loadu_ps(there, x + i), top);
    const __mmask16 counts = there & _mm512_cmp_ps_mask(v, least, _CMP_NLT_UQ);
    EXPONENTIAL(__m512, v, _mm512_set1_ps, _mm512_mul_ps, ROUND_512, _mm512_fnmadd_ps, _mm512_fmadd_ps,
                _mm512_cvtps_epi32, _mm512_add_epi32, _mm512_slli_epi32, _mm512_castps_si512, _mm512_castsi512_ps)
    total = _mm512_mask_add_ps(total, counts, total, v);
  }
  return largest + std::log(_mm512_reduce_add_ps(total));
}

AVX512 void look_avx512(const Heads& all, int64_t row, int64_t head, float* scores) {
  const int64_t group = head / (all.heads / all.groups);
  const float* keys = all.key + group * all.key_head;
  const float* values = all.value + group * all.value_head;
  const int64_t* from = all.moved ? all.moved + row * all.moved_row : nullptr;
  for (int64_t at = 0; at < all.queries; ++at) {
    const float* query = all.query + row * all.query_row + head * all.query_head + at * all.query_step;
    const bool* allowed = all.allowed ? all.allowed + row * all.allowed_row + at * all.allowed_query : nullptr;
    for (int64_t t = 0; t < all.keys; ++t) {
      if (allowed && !allowed[t * all.allowed_key]) {
        scores[t] = -INFINITY;
        continue;
      }
      const float* near = keys + (from ? from[t] : row) * all.key_row + t * all.key_step;
      __m512 sum = _mm512_setzero_ps();
      for (int64_t d = 0; d < all.size; d += 16)
        sum = _mm512_fmadd_ps(_mm512_loadu_ps(query + d), _mm512_loadu_ps(near + d), sum);
      scores[t] = _mm512_reduce_add_ps(sum) * all.scale;
    }
    const float total = weigh_avx512(scores, all.keys);
    float* out = all.out + ((row * all.queries + at) * all.heads + head) * all.size;
    int64_t d = 0;
    for (; d + 64 <= all.size; d += 64) gather_avx512<4>(all, scores, values + d, row, from, 1.0f / total, out + d);
    for (; d + 32 <= all.size; d += 32) gather_avx512<2>(all, scores, values + d, row, from, 1.0f / total, out + d);
    for (; d < all.size; d += 16) gather_avx512<1>(all, scores, values + d, row, from, 1.0f / total, out + d);
  }
}

AVX2 float add_up(__m256 v) {
  __m128 sum = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
  return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

AVX2 float weigh_avx2(float* scores, int64_t count) {
  float top = -INFINITY, total = 0.0f;
  for (int64_t t = 0; t < count; ++t) top = scores[t] > top ? scores[t] : top;
  if (top == -INFINITY) return blank(scores, count);
  const __m256 most = _mm256_set1_ps(top), least = _mm256_set1_ps(-87.0f);
  for (int64_t t = 0; t < count; t += 8) {
    const __m256 given = _mm256_sub_ps(_mm256_loadu_ps(scores + t), most);
    __m256 x = given;
    EXPONENTIAL(__m256, x, _mm256_set1_ps, _mm256_mul_ps, ROUND_256, _mm256_fnmadd_ps, _mm256_fmadd_ps,
                _mm256_cvtps_epi32, _mm256_add_epi32, _mm256_slli_epi32, _mm256_castps_si256, _mm256_castsi256_ps)
    x = _mm256_and_ps(x, _mm256_cmp_ps(given, least, _CMP_NLT_UQ));
    x = _mm256_blendv_ps(x, given, _mm256_cmp_ps(given, given, _CMP_UNORD_Q));
    _mm256_storeu_ps(scores + t, x);
  }
  for (int64_t t = 0; t < count; ++t) total += scores[t];
  return total;
}

AVX2 float total_avx2(const float* x, int64_t count) {
  float largest = -INFINITY;
  bool odd = false;
  for (int64_t i = 0; i < count; ++i) {
    odd = odd || std::isnan(x[i]);
    largest = x[i] > largest ? x[i] : largest;
  }
  if (odd) return NAN;
  if (std::isinf(largest)) return largest;
  const __m256 top = _mm256_set1_ps(largest), least = _mm256_set1_ps(-87.0f);
  __m256 total = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 given = _mm256_sub_ps(_mm256_loadu_ps(x + i), top);
    __m256 v = given;
    EXPONENTIAL(__m256, v, _mm256_set1_ps, _mm256_mul_ps, ROUND_256, _mm256_fnmadd_ps, _mm256_fmadd_ps,
                _mm256_cvtps_epi32, _mm256_add_epi32, _mm256_slli_epi32, _mm256_castps_si256, _mm256_castsi256_ps)
    total = _mm256_add_ps(total, _mm256_and_ps(v, _mm256_cmp_ps(given, least, _CMP_NLT_UQ)));
  }
  float sum = add_up(total);
  for (; i < count; ++i) sum += std::exp(x[i] - largest);
  return largest + std::log(sum);
}

AVX2 void look_avx2(const Heads& all, int64_t row, int64_t head, float* scores) {
  const int64_t group = head / (all.heads / all.groups);
  const float* keys = all.key + group * all.key_head;
  const float* values = all.value + group * all.value_head;
  const int64_t* from = all.moved ? all.moved + row * all.moved_row : nullptr;
  for (int64_t at = 0; at < all.queries; ++at) {
    const float* query = all.query + row * all.query_row + head * all.query_head + at * all.query_step;
    const bool* allowed = all.allowed ? all.allowed + row * all.allowed_row + at * all.allowed_query : nullptr;
    for (int64_t t = 0; t < all.keys; ++t) {
      const float* near = keys + (from ? from[t] : row) * all.key_row + t * all.key_step;
      __m256 sum = _mm256_setzero_ps();
      for (int64_t d = 0; d < all.size; d += 8)
        sum = _mm256_fmadd_ps(_mm256_loadu_ps(query + d), _mm256_loadu_ps(near + d), sum);
      scores[t] = allowed && !allowed[t * all.allowed_key] ? -INFINITY : add_up(sum) * all.scale;
    }
    const float total = weigh_avx2(scores, all.keys);
    float* out = all.out + ((row * all.queries + at) * all.heads + head) * all.size;
    const __m256 share = _mm256_set1_ps(1.0f / total);
    for (int64_t d = 0; d < all.size; d += 8) {
      __m256 sum = _mm256_setzero_ps();
      for (int64_t t = 0; t < all.keys; ++t)
        sum = _mm256_fmadd_ps(_mm256_set1_ps(scores[t]),
                              _mm256_loadu_ps(values + (from ? from[t] : row) * all.value_row + t * all.value_step + d),
                              sum);
      _mm256_storeu_ps(out + d, _mm256_mul_ps(sum, share));
    }
  }
}

}  // namespace

extern "C" {

// 2: AVX-512 with VNNI; 1: AVX2; 0: neither, and nothing else here may be called.
int regard_level() { return find_level(); }

// The bytes that packed weights take.
int64_t regard_packed_bytes(int64_t outputs, int64_t inputs) {
  return round_up(outputs, PANEL) * round_up(inputs, QUAD);
}

// Lay out weights, (outputs, inputs), panel by panel, and add up those of each output.
void regard_pack(const int8_t* weights, int64_t outputs, int64_t inputs, int8_t* packed, int32_t* sums) {
  const int64_t quads = round_up(inputs, QUAD) / QUAD;
  std::memset(packed, 0, regard_packed_bytes(outputs, inputs));
  for (int64_t n = 0; n < outputs; ++n) {
    int8_t* panel = packed + n / PANEL * quads * PANEL * QUAD + n % PANEL * QUAD;
    int32_t sum = 0;
    for (int64_t k = 0; k < inputs; ++k) {
      panel[k / QUAD * PANEL * QUAD + k % QUAD] = weights[n * inputs + k];
      sum += weights[n * inputs + k];
    }
    sums[n] = sum;
  }
}

// y = ((p qᵀ) · scale) · size + bias, where p are the rows of x in whole numbers of their own size: (rows, outputs).
// With the instructions of level 1, sums are exact up to 63 levels.
void regard_multiply(const float* x, int64_t rows, int64_t inputs, const int8_t* packed, const int32_t* sums,
                     const float* scale, const float* bias, int64_t outputs, int levels, float* y, int level) {
  const bool wide = level == WITH_VNNI;
  const Scaling how{levels, levels + 1};
  const int64_t quads = round_up(inputs, QUAD) / QUAD, stride = quads * QUAD;
  const int64_t panels = round_up(outputs, PANEL) / PANEL, chunks = (rows + CHUNK - 1) / CHUNK;
  static thread_local std::vector<uint8_t> space;
  static thread_local std::vector<float> sizes;
  space.resize(rows * stride);
  sizes.resize(rows);
  uint8_t* const whole = space.data();
  float* const size = sizes.data();
  const Tile* tiles = wide ? TILES_AVX512 : TILES_AVX2;
  const int64_t most = wide ? 6 : 2;
#pragma omp parallel if (rows * inputs * outputs > ALONE)
  {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      std::memset(whole + row * stride + inputs, 0, stride - inputs);
      size[row] = (wide ? quantise_avx512 : quantise_avx2)(x + row * inputs, inputs, whole + row * stride, how);
    }
#pragma omp for schedule(static)
    for (int64_t work = 0; work < panels * chunks; ++work) {
      const int64_t number = work % panels, first = work / panels * CHUNK;
      const int64_t last = first + CHUNK < rows ? first + CHUNK : rows, begin = number * PANEL;
      const Panel panel{packed + begin * stride,       sums + begin, scale + begin,
                        bias ? bias + begin : nullptr, quads,        outputs - begin < PANEL ? outputs - begin : PANEL};
      for (int64_t row = first; row < last;) {
        const int64_t now = last - row < most ? last - row : most;
        tiles[now - 1](whole + row * stride, stride, size + row, panel, how.zero, y + row * outputs + begin, outputs);
        row += now;
      }
    }
  }
}

// What a few queries see. `sizes`: rows, heads, groups of heads that share keys, queries, keys, numbers of a head (in
// whole registers: sixteen, or eight with level 1). `steps`: from one row, head and position to the next, of queries,
// keys and values, from one row, query and key to the next of `allowed`, and from one row to the next of `moved`.
void regard_look(const float* query, const float* key, const float* value, const bool* allowed, const int64_t* moved,
                 float* out, const int64_t* sizes, const int64_t* steps, float scale, int level) {
  Heads all{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4],  sizes[5],  query,     key,      value,
            allowed,  moved,    out,      steps[0], steps[1],  steps[2],  steps[3],  steps[4], steps[5],
            steps[6], steps[7], steps[8], steps[9], steps[10], steps[11], steps[12], scale};
  const int64_t work = all.rows * all.heads;
#pragma omp parallel if (work * all.queries * all.keys * all.size > ALONE)
  {
    std::vector<float> scores(all.keys + 16);
#pragma omp for schedule(static)
    for (int64_t each = 0; each < work; ++each)
      (level == WITH_VNNI ? look_avx512 : look_avx2)(all, each / all.heads, each % all.heads, scores.data());
  }
}

// log Σ e^x of each row; `step`: from one row to the next.
void regard_totals(const float* x, int64_t rows, int64_t words, int64_t step, float* out, int level) {
#pragma omp parallel for schedule(static) if (rows * words * 8 > ALONE)
  for (int64_t row = 0; row < rows; ++row)
    out[row] = (level == WITH_VNNI ? total_avx512 : total_avx2)(x + row * step, words);
}

}  // extern "C"
