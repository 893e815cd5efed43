// What torch's own kernels leave on the table: few rows multiplied by packed weights, few queries that look at many keys
// and the best of many words, when a model writes token by token; products and attention where MKL leaves half of a
// processor idle; messages along edges; Mamba's selective scan, which torch has no kernel for; and norms of maps.
//
// Plain C functions over plain arrays: no header but the compiler's, so it is built in seconds, by any C++17 compiler
// on x86-64. Each function has a path for AVX-512 with VNNI and one for AVX2, chosen when it runs. Threads are
// OpenMP's, from the library that torch has loaded, so both share one pool.

#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")))
#define AVX2 __attribute__((target("avx2,fma,f16c")))

namespace {

constexpr int64_t PANEL = 64;       // outputs whose weights stand together: [panel][inputs / 4][64][4]
constexpr int64_t QUAD = 4;         // inputs that one instruction multiplies and adds up
constexpr int64_t CHUNK = 48;       // rows that stay near while a panel is read
constexpr int64_t ALONE = 1 << 18;  // products below which a second thread costs more than it brings

// Set while other processes leave one core to this one: what a thread computes never depends on how many there are.
volatile bool crowded = false;
bool shares(int64_t work) { return !crowded && work > ALONE; }

// `each` of so many, by all threads where there is work enough; OpenMP would make a team of one for less, every time.
template <typename Do>
void share_out(int64_t count, int64_t work, const Do& each) {
  if (!shares(work)) {
    for (int64_t i = 0; i < count; ++i) each(i);
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) each(i);
}

enum Level { NONE = 0, WITH_AVX2 = 1, WITH_VNNI = 2 };

Level find_level() {
  static const Level level = [] {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
      return WITH_VNNI;
    unsigned a, b, c = 0, d;
    const bool halves = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && halves ? WITH_AVX2 : NONE;
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

// ---- rows in whole numbers, and what becomes of them

struct Rounded {
  std::vector<uint8_t> numbers;  // (rows, stride)
  std::vector<float> sizes;
  int64_t stride;
};

void round_rows(const float* x, int64_t rows, int64_t inputs, int levels, int level, Rounded& to) {
  const Scaling how{levels, levels + 1};
  to.stride = round_up(inputs, QUAD);
  to.numbers.resize(rows * to.stride);
  to.sizes.resize(rows);
  uint8_t* const whole = to.numbers.data();
  float* const sizes = to.sizes.data();
  const int64_t stride = to.stride;
  share_out(rows, rows * inputs * 8, [&](int64_t row) {
    std::memset(whole + row * stride + inputs, 0, stride - inputs);
    sizes[row] = (level == WITH_VNNI ? quantise_avx512 : quantise_avx2)(x + row * inputs, inputs, whole + row * stride, how);
  });
}

struct Bytes {
  const int8_t* packed;
  const int32_t* sums;
  const float *scale, *bias;
};

// `tile(output, row, count)` for each panel of outputs, by its first, and `most` rows of each chunk.
template <typename Do>
void each_tile(int64_t rows, int64_t inputs, int64_t outputs, int64_t most, const Do& tile) {
  const int64_t panels = round_up(outputs, PANEL) / PANEL, chunks = (rows + CHUNK - 1) / CHUNK;
  share_out(panels * chunks, rows * inputs * outputs, [&](int64_t work) {
    const int64_t first = work / panels * CHUNK, last = first + CHUNK < rows ? first + CHUNK : rows;
    for (int64_t row = first; row < last; row += most)
      tile(work % panels * PANEL, row, last - row < most ? last - row : most);
  });
}

// y = ((p qᵀ) · scale) · size + bias, where p are rows in whole numbers of their own size: (rows, outputs).
void multiply_rounded(const Rounded& from, int64_t rows, const Bytes& w, int64_t outputs, int levels, float* y,
                      int level) {
  const Tile* tiles = level == WITH_VNNI ? TILES_AVX512 : TILES_AVX2;
  const int64_t stride = from.stride;
  each_tile(rows, stride, outputs, level == WITH_VNNI ? 6 : 2, [&](int64_t begin, int64_t row, int64_t count) {
    const Panel panel{w.packed + begin * stride,         w.sums + begin, w.scale + begin,
                      w.bias ? w.bias + begin : nullptr, stride / QUAD,  outputs - begin < PANEL ? outputs - begin : PANEL};
    tiles[count - 1](from.numbers.data() + row * stride, stride, from.sizes.data() + row, panel, levels + 1,
                     y + row * outputs + begin, outputs);
  });
}

// ---- weights in bf16, the upper half of a float; sums in single precision, in the order of the inputs
//
// Where the processor multiplies two bf16 at once, rows are rounded to it too: twice as fast as single precision.
// Elsewhere weights become floats on their way, and rows stay as they are.

constexpr int64_t PAIR = 2;  // inputs that one instruction multiplies and adds up
constexpr int64_t SIDE = 8;  // outputs of a register of AVX2, whose weights share words with those of the next eight

// sums += two products of each output; compilers before GCC 10, and their assemblers, don't know it
#if __GNUC__ >= 10
bool has_brains() { return __builtin_cpu_supports("avx512bf16"); }
#define ADD_PAIR(sums, two, weights) asm("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(two), "v"(weights))
#else
bool has_brains() { return false; }
#define ADD_PAIR(sums, two, weights)
#endif

bool rounds_brains(int level) { return level == WITH_VNNI && has_brains(); }

// To the nearest, of two equally near ones to the even one; what is no number stays none.
AVX512 void round_brains(const float* x, int64_t count, uint16_t* out) {
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 there = count - i >= 16 ? 0xffff : (1u << (count - i)) - 1;
    const __m512 v = _mm512_maskz_loadu_ps(there, x + i);
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    up = _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc00000));
    _mm512_mask_cvtepi32_storeu_epi16(out + i, there, _mm512_srli_epi32(up, 16));
  }
}

// ROWS rounded rows by a panel, packed as [inputs / 2][64][2].
template <int ROWS>
AVX512 void pair_avx512(const uint16_t* x, int64_t stride, const uint16_t* w, const float* bias, int64_t outputs,
                        float* y, int64_t step) {
  __m512 sum[ROWS][4];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int o = 0; o < 4; ++o) sum[r][o] = _mm512_setzero_ps();
  for (int64_t k = 0; k < stride; k += PAIR) {
    __m512i v[4];
#pragma GCC unroll 4
    for (int o = 0; o < 4; ++o) v[o] = _mm512_loadu_si512(w + k * PANEL + o * 32);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r) {
      int32_t two;
      std::memcpy(&two, x + r * stride + k, 4);
      const __m512i n = _mm512_set1_epi32(two);
#pragma GCC unroll 4
      for (int o = 0; o < 4; ++o) ADD_PAIR(sum[r][o], n, v[o]);
    }
  }
#pragma GCC unroll 4
  for (int o = 0; o < 4; ++o) {
    const int64_t left = outputs - o * 16;
    if (left <= 0) return;
    const __mmask16 kept = left >= 16 ? 0xffff : (1u << left) - 1;
    const __m512 more = bias ? _mm512_maskz_loadu_ps(kept, bias + o * 16) : _mm512_setzero_ps();
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r) _mm512_mask_storeu_ps(y + r * step + o * 16, kept, _mm512_add_ps(sum[r][o], more));
  }
}

// ROWS rows by a panel, packed as [inputs][4][8][2]: a word holds the weights of two outputs that are eight apart.
template <int ROWS>
AVX2 void widen_avx2(const float* x, int64_t inputs, const uint16_t* w, const float* bias, int64_t outputs, float* y,
                     int64_t step) {
  constexpr int WORDS = ROWS == 1 ? 4 : ROWS <= 3 ? 2 : 1;  // registers of words at once: sixteen hold twelve sums
  const __m256i upper = _mm256_set1_epi32(0xffff0000);
  for (int64_t first = 0; first < 4 && first * 2 * SIDE < outputs; first += WORDS) {
    __m256 sum[ROWS][WORDS][2];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
      for (int o = 0; o < WORDS; ++o) sum[r][o][0] = sum[r][o][1] = _mm256_setzero_ps();
    for (int64_t k = 0; k < inputs; ++k) {
#pragma GCC unroll 4
      for (int o = 0; o < WORDS; ++o) {
        const __m256i two =
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + k * PANEL + (first + o) * 2 * SIDE));
        const __m256 low = _mm256_castsi256_ps(_mm256_slli_epi32(two, 16));
        const __m256 high = _mm256_castsi256_ps(_mm256_and_si256(two, upper));
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r) {
          const __m256 n = _mm256_broadcast_ss(x + r * inputs + k);
          sum[r][o][0] = _mm256_fmadd_ps(n, low, sum[r][o][0]);
          sum[r][o][1] = _mm256_fmadd_ps(n, high, sum[r][o][1]);
        }
      }
    }
    alignas(32) float held[ROWS][WORDS * 2 * SIDE];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
      for (int o = 0; o < WORDS; ++o) {
        _mm256_store_ps(held[r] + o * 2 * SIDE, sum[r][o][0]);
        _mm256_store_ps(held[r] + o * 2 * SIDE + SIDE, sum[r][o][1]);
      }
    const int64_t at = first * 2 * SIDE, count = std::min<int64_t>(outputs - at, WORDS * 2 * SIDE);
    for (int r = 0; r < ROWS; ++r)
      for (int64_t j = 0; j < count; ++j) y[r * step + at + j] = bias ? held[r][j] + bias[at + j] : held[r][j];
  }
}

using Pair = void (*)(const uint16_t*, int64_t, const uint16_t*, const float*, int64_t, float*, int64_t);
using Widen = void (*)(const float*, int64_t, const uint16_t*, const float*, int64_t, float*, int64_t);
constexpr Pair PAIRS[] = {pair_avx512<1>, pair_avx512<2>, pair_avx512<3>,
                          pair_avx512<4>, pair_avx512<5>, pair_avx512<6>};
constexpr Widen WIDENS[] = {widen_avx2<1>, widen_avx2<2>, widen_avx2<3>, widen_avx2<4>, widen_avx2<5>, widen_avx2<6>};

struct Brains {
  std::vector<uint16_t> numbers;  // (rows, stride)
  int64_t stride;
};

void round_rows(const float* x, int64_t rows, int64_t inputs, Brains& to) {
  to.stride = round_up(inputs, PAIR);
  to.numbers.resize(rows * to.stride);
  uint16_t* const numbers = to.numbers.data();
  const int64_t stride = to.stride;
  share_out(rows, rows * inputs * 8, [&](int64_t row) {
    round_brains(x + row * inputs, inputs, numbers + row * stride);
    if (inputs < stride) numbers[row * stride + inputs] = 0;
  });
}

// y = x wᵀ + bias, where x are rows, or those rounded from them.
void multiply_brains(const float* x, const Brains& from, int64_t rows, int64_t inputs, const uint16_t* w,
                     const float* bias, int64_t outputs, float* y, int level) {
  const int64_t deep = round_up(inputs, PAIR);
  const bool rounds = rounds_brains(level);
  each_tile(rows, inputs, outputs, 6, [&](int64_t begin, int64_t row, int64_t count) {
    const uint16_t* panel = w + begin * deep;
    const float* more = bias ? bias + begin : nullptr;
    const int64_t wide = outputs - begin < PANEL ? outputs - begin : PANEL;
    float* to = y + row * outputs + begin;
    if (rounds)
      PAIRS[count - 1](from.numbers.data() + row * deep, deep, panel, more, wide, to, outputs);
    else
      WIDENS[count - 1](x + row * inputs, inputs, panel, more, wide, to, outputs);
  });
}

// ---- products in single precision; those of many rows with AVX-512 alone
//
// MKL, which torch asks, has AVX-512 for one maker's processors; on the others it leaves half of them idle.

constexpr int64_t TALL = 6;      // rows of a tile
constexpr int64_t STRIP = 48;    // rows whose numbers stay near while panels are read
constexpr int64_t DEEP = 512;    // inputs that are multiplied before sums are stored
constexpr int64_t LYING = DEEP + 16;  // from one of these rows to the next: a power of two would put all in one place
constexpr int64_t SOME = 24;     // rows from which on it pays to turn weights round
constexpr int64_t NEAR = 256;    // inputs of a panel that is turned round at once: 64 KB
constexpr int64_t SLIM = 16;     // outputs whose weights stand together with AVX2
constexpr int64_t WIDE = 2048;   // outputs whose packed weights are held at once

// A matrix of any steps: element (i, j) stands at i · row + j · column.
struct Matrix {
  const float* numbers;
  int64_t row, column;
};

// Four sums over a register each.
AVX512 inline __m128 add_four(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  const __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  const __m512 all = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));  // a, b, c, d, in each quarter
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

// ROWS rows by four outputs, whose weights are read as they are: y (+)= x wᵀ + bias, from `inputs` numbers of each.
template <int ROWS>
AVX512 void dot_avx512(const float* x, int64_t step, const float* w, int64_t pitch, int64_t inputs, const float* bias,
                       bool adds, int64_t outputs, float* y, int64_t stride) {
  __m512 sum[ROWS][4];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int o = 0; o < 4; ++o) sum[r][o] = _mm512_setzero_ps();
  const float* near[4];  // an output that isn't there repeats the last, and isn't stored
  for (int64_t o = 0; o < 4; ++o) near[o] = w + (o < outputs ? o : outputs - 1) * pitch;
  int64_t k = 0;
  for (; k + 16 <= inputs; k += 16) {
    __m512 v[4];
#pragma GCC unroll 4
    for (int o = 0; o < 4; ++o) v[o] = _mm512_loadu_ps(near[o] + k);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r) {
      const __m512 n = _mm512_loadu_ps(x + r * step + k);
#pragma GCC unroll 4
      for (int o = 0; o < 4; ++o) sum[r][o] = _mm512_fmadd_ps(n, v[o], sum[r][o]);
    }
  }
  if (k < inputs) {
    const __mmask16 there = (1u << (inputs - k)) - 1;
    for (int r = 0; r < ROWS; ++r)
      for (int o = 0; o < 4; ++o)
        sum[r][o] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(there, x + r * step + k),
                                    _mm512_maskz_loadu_ps(there, near[o] + k), sum[r][o]);
  }
  const __mmask8 kept = outputs >= 4 ? 0xf : (1u << outputs) - 1;
  const __m128 more = bias ? _mm_maskz_loadu_ps(kept, bias) : _mm_setzero_ps();
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r) {
    __m128 all = add_four(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
    all = _mm_add_ps(all, adds ? _mm_maskz_loadu_ps(kept, y + r * stride) : more);
    _mm_mask_storeu_ps(y + r * stride, kept, all);
  }
}

// The same with half as wide registers, of which there are sixteen.
AVX2 inline __m128 add_four(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));  // a, b, c, d, in each half
  return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

template <int ROWS>
AVX2 void dot_avx2(const float* x, int64_t step, const float* w, int64_t pitch, int64_t inputs, const float* bias,
                   bool adds, int64_t outputs, float* y, int64_t stride) {
  __m256 sum[ROWS][4];
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int o = 0; o < 4; ++o) sum[r][o] = _mm256_setzero_ps();
  const float* near[4];
  for (int64_t o = 0; o < 4; ++o) near[o] = w + (o < outputs ? o : outputs - 1) * pitch;
  int64_t k = 0;
  for (; k + 8 <= inputs; k += 8) {
    __m256 n[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) n[r] = _mm256_loadu_ps(x + r * step + k);
#pragma GCC unroll 4
    for (int o = 0; o < 4; ++o) {
      const __m256 v = _mm256_loadu_ps(near[o] + k);
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) sum[r][o] = _mm256_fmadd_ps(n[r], v, sum[r][o]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r) {
    alignas(16) float all[4];
    _mm_store_ps(all, add_four(sum[r][0], sum[r][1], sum[r][2], sum[r][3]));
    for (int64_t o = 0; o < 4 && o < outputs; ++o) {
      for (int64_t j = k; j < inputs; ++j) all[o] += x[r * step + j] * near[o][j];
      float* at = y + r * stride + o;
      *at = adds ? *at + all[o] : bias ? all[o] + bias[o] : all[o];
    }
  }
}

using Dot = void (*)(const float*, int64_t, const float*, int64_t, int64_t, const float*, bool, int64_t, float*,
                     int64_t);
constexpr Dot DOTS_AVX512[] = {dot_avx512<1>, dot_avx512<2>, dot_avx512<3>,
                               dot_avx512<4>, dot_avx512<5>, dot_avx512<6>};
constexpr Dot DOTS_AVX2[] = {dot_avx2<1>, dot_avx2<2>, dot_avx2<3>};

// Rows in tiles of like height: `tile` of so many, from where to where.
inline int64_t begin_tile(int64_t rows, int64_t tiles, int64_t tile) { return rows * tile / tiles; }

// y = x wᵀ + bias for very few rows: weights are read as they are, since each is used only a few times.
void multiply_dots(const float* x, int64_t rows, int64_t inputs, const float* w, const float* bias, int64_t outputs,
                  float* y, int level) {
  const Dot* dots = level == WITH_VNNI ? DOTS_AVX512 : DOTS_AVX2;
  const int64_t tall = level == WITH_VNNI ? TALL : 3;
  const int64_t tiles = (rows + tall - 1) / tall, fours = (outputs + 3) / 4;
  share_out(fours, rows * inputs * outputs, [&](int64_t four) {
    const int64_t o = four * 4, left = outputs - o < 4 ? outputs - o : 4;
    for (int64_t k = 0; k < inputs; k += DEEP) {
      const int64_t deep = inputs - k < DEEP ? inputs - k : DEEP;
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t row = begin_tile(rows, tiles, tile), count = begin_tile(rows, tiles, tile + 1) - row;
        dots[count - 1](x + row * inputs + k, inputs, w + o * inputs + k, inputs, deep, bias ? bias + o : nullptr,
                        k > 0, left, y + row * outputs + o, outputs);
      }
    }
  });
}

// A number in half precision, which becomes a float on its way.
struct Half {
  uint16_t bits;
};
AVX512 inline __m512 load_sixteen(const float* at) { return _mm512_loadu_ps(at); }
AVX512 inline __m512 load_sixteen(const Half* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
AVX2 inline __m256 load_eight(const float* at) { return _mm256_loadu_ps(at); }
AVX2 inline __m256 load_eight(const Half* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

// ROWS rows by a panel of 64 outputs, packed as [inputs][64]. Rows are read with steps, or packed as [inputs][ROWS].
template <int ROWS, typename Weight = float>
AVX512 void sweep_avx512(const float* x, int64_t row, int64_t column, const Weight* w, int64_t inputs,
                         const float* bias, bool adds, int64_t outputs, float* y, int64_t stride) {
  __m512 sum[ROWS][4];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int o = 0; o < 4; ++o) sum[r][o] = _mm512_setzero_ps();
  for (int64_t k = 0; k < inputs; ++k) {
    __m512 v[4];
#pragma GCC unroll 4
    for (int o = 0; o < 4; ++o) v[o] = load_sixteen(w + k * PANEL + o * 16);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r) {
      const __m512 n = _mm512_set1_ps(x[r * row + k * column]);
#pragma GCC unroll 4
      for (int o = 0; o < 4; ++o) sum[r][o] = _mm512_fmadd_ps(n, v[o], sum[r][o]);
    }
  }
#pragma GCC unroll 4
  for (int o = 0; o < 4; ++o) {
    const int64_t left = outputs - o * 16;
    if (left <= 0) return;
    const __mmask16 kept = left >= 16 ? 0xffff : (1u << left) - 1;
    const __m512 more = bias ? _mm512_maskz_loadu_ps(kept, bias + o * 16) : _mm512_setzero_ps();
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r) {
      float* at = y + r * stride + o * 16;
      _mm512_mask_storeu_ps(at, kept, _mm512_add_ps(sum[r][o], adds ? _mm512_maskz_loadu_ps(kept, at) : more));
    }
  }
}

using Sweep = void (*)(const float*, int64_t, int64_t, const float*, int64_t, const float*, bool, int64_t, float*,
                       int64_t);
constexpr Sweep SWEEPS[] = {sweep_avx512<1>, sweep_avx512<2>, sweep_avx512<3>,
                            sweep_avx512<4>, sweep_avx512<5>, sweep_avx512<6>};

// ROWS rows, whose numbers stand side by side, by WIDE times sixteen outputs, packed as [WIDE][inputs][16]. Sixteen half as
// wide registers hold twelve sums; with fewer, each would wait for its last product.
template <int ROWS, int WIDE, typename Weight>
AVX2 void sweep_slim(const float* x, int64_t row, const Weight* w, int64_t inputs, const float* more, int64_t step,
                     int64_t outputs, float* y, int64_t stride) {
  __m256 sum[ROWS][WIDE][2];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int p = 0; p < WIDE; ++p) sum[r][p][0] = sum[r][p][1] = _mm256_setzero_ps();
  for (int64_t k = 0; k < inputs; ++k)
#pragma GCC unroll 4
    for (int p = 0; p < WIDE; ++p) {
      const Weight* at = w + (p * inputs + k) * SLIM;
      const __m256 low = load_eight(at), high = load_eight(at + 8);
#pragma GCC unroll 8
      for (int r = 0; r < ROWS; ++r) {
        const __m256 n = _mm256_broadcast_ss(x + r * row + k);
        sum[r][p][0] = _mm256_fmadd_ps(n, low, sum[r][p][0]);
        sum[r][p][1] = _mm256_fmadd_ps(n, high, sum[r][p][1]);
      }
    }
  alignas(32) float held[ROWS][WIDE * SLIM];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
    for (int b = 0; b < WIDE * 2; ++b) {
      const bool whole = (b + 1) * 8 <= outputs;
      __m256 all = sum[r][b / 2][b % 2];
      if (whole && more) all = _mm256_add_ps(all, _mm256_loadu_ps(more + r * step + b * 8));
      _mm256_storeu_ps((whole ? y + r * stride : held[r]) + b * 8, all);
    }
  for (int r = 0; r < ROWS && outputs < WIDE * SLIM; ++r)
    for (int64_t o = outputs / 8 * 8; o < outputs; ++o)
      y[r * stride + o] = more ? held[r][o] + more[r * step + o] : held[r][o];
}

// A panel of 64 outputs, packed as [4][inputs][16].
template <int ROWS, typename Weight = float>
AVX2 void sweep_avx2(const float* x, int64_t row, int64_t, const Weight* w, int64_t inputs, const float* bias,
                     bool adds, int64_t outputs, float* y, int64_t stride) {
  constexpr int WIDE = ROWS == 1 ? 4 : ROWS <= 3 ? 2 : 1;
  for (int64_t o = 0; o < outputs; o += WIDE * SLIM) {
    const int64_t wide = outputs - o < WIDE * SLIM ? outputs - o : WIDE * SLIM;
    const float* more = adds ? y + o : bias ? bias + o : nullptr;
    sweep_slim<ROWS, WIDE, Weight>(x, row, w + o * inputs, inputs, more, adds ? stride : 0, wide, y + o, stride);
  }
}

constexpr Sweep SWEEPS_AVX2[] = {sweep_avx2<1>, sweep_avx2<2>, sweep_avx2<3>,
                                 sweep_avx2<4>, sweep_avx2<5>, sweep_avx2<6>};

using HalfSweep = void (*)(const float*, int64_t, int64_t, const Half*, int64_t, const float*, bool, int64_t, float*,
                           int64_t);
constexpr HalfSweep HALF_SWEEPS[] = {sweep_avx512<1, Half>, sweep_avx512<2, Half>, sweep_avx512<3, Half>,
                                sweep_avx512<4, Half>, sweep_avx512<5, Half>, sweep_avx512<6, Half>};
constexpr HalfSweep HALF_SWEEPS_AVX2[] = {sweep_avx2<1, Half>, sweep_avx2<2, Half>, sweep_avx2<3, Half>,
                                     sweep_avx2<4, Half>, sweep_avx2<5, Half>, sweep_avx2<6, Half>};

// y = x wᵀ + bias with weights in half precision, packed for this level.
void multiply_halves(const float* x, int64_t rows, int64_t inputs, const Half* w, const float* bias, int64_t outputs,
                     float* y, int level) {
  const HalfSweep* sweeps = level == WITH_VNNI ? HALF_SWEEPS : HALF_SWEEPS_AVX2;
  each_tile(rows, inputs, outputs, TALL, [&](int64_t begin, int64_t row, int64_t count) {
    sweeps[count - 1](x + row * inputs, inputs, 1, w + begin * inputs, inputs, bias ? bias + begin : nullptr, false,
                      outputs - begin < PANEL ? outputs - begin : PANEL, y + row * outputs + begin, outputs);
  });
}

// Up to sixteen rows of sixteen numbers turned round: what stood side by side stands one below the other, `step` apart,
// and zeros stand where there is no row.
AVX512 void turn_avx512(const float* from, int64_t pitch, int64_t rows, float* to, int64_t step) {
  __m512 a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = i < rows ? _mm512_loadu_ps(from + i * pitch) : _mm512_setzero_ps();
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b[i]), _mm512_castps_pd(b[i + 2])));
    a[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b[i]), _mm512_castps_pd(b[i + 2])));
    a[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b[i + 1]), _mm512_castps_pd(b[i + 3])));
    a[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b[i + 1]), _mm512_castps_pd(b[i + 3])));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    b[i] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88);
    b[i + 4] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
    b[i + 8] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
    b[i + 12] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm512_storeu_ps(to + i * step, _mm512_shuffle_f32x4(b[i], b[i + 8], 0x88));
    _mm512_storeu_ps(to + (i + 4) * step, _mm512_shuffle_f32x4(b[i + 4], b[i + 12], 0x88));
    _mm512_storeu_ps(to + (i + 8) * step, _mm512_shuffle_f32x4(b[i], b[i + 8], 0xdd));
    _mm512_storeu_ps(to + (i + 12) * step, _mm512_shuffle_f32x4(b[i + 4], b[i + 12], 0xdd));
  }
}

// A panel of weights, element (input, output) of `w` from its first on, as [inputs][64]; zeros where there is none.
AVX512 void pack_panel(Matrix w, int64_t inputs, int64_t outputs, float* to) {
  const bool whole = outputs == PANEL && inputs % 16 == 0;
  if (w.column == 1) {
    for (int64_t k = 0; k < inputs; ++k)
      for (int64_t o = 0; o < PANEL; o += 16) {
        const int64_t left = outputs - o;
        const __mmask16 there = left >= 16 ? 0xffff : left <= 0 ? 0 : (1u << left) - 1;
        _mm512_storeu_ps(to + k * PANEL + o, _mm512_maskz_loadu_ps(there, w.numbers + k * w.row + o));
      }
  } else if (whole && w.row == 1) {
    for (int64_t o = 0; o < PANEL; o += 16)
      for (int64_t k = 0; k < inputs; k += 16)
        turn_avx512(w.numbers + o * w.column + k, w.column, 16, to + k * PANEL + o, PANEL);
  } else {
    std::memset(to, 0, inputs * PANEL * sizeof(float));
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t k = 0; k < inputs; ++k) to[k * PANEL + o] = w.numbers[k * w.row + o * w.column];
  }
}

// Eight rows of eight numbers, likewise.
AVX2 void turn_avx2(const float* from, int64_t pitch, float* to, int64_t step) {
  __m256 a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) a[i] = _mm256_loadu_ps(from + i * pitch);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      a[i + 2 * j] = _mm256_shuffle_ps(b[i + j], b[i + j + 2], 0x44);
      a[i + 2 * j + 1] = _mm256_shuffle_ps(b[i + j], b[i + j + 2], 0xee);
    }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * step, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * step, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
  }
}

// A panel of weights, whose inputs stand side by side, as [4][inputs][16]; zeros where there is none.
AVX2 void pack_panel_avx2(const float* w, int64_t pitch, int64_t inputs, int64_t outputs, float* to) {
  for (int64_t first = 0; first < PANEL; first += SLIM, w += SLIM * pitch, to += SLIM * inputs) {
    const int64_t wide = std::max<int64_t>(0, outputs - first < SLIM ? outputs - first : SLIM);
    const int64_t whole = wide == SLIM ? inputs / 8 * 8 : 0;
    for (int64_t k = 0; k < whole; k += 8)
      for (int64_t o = 0; o < SLIM; o += 8) turn_avx2(w + o * pitch + k, pitch, to + k * SLIM + o, SLIM);
    std::memset(to + whole * SLIM, 0, (inputs - whole) * SLIM * sizeof(float));
    for (int64_t o = 0; o < wide; ++o)
      for (int64_t k = whole; k < inputs; ++k) to[k * SLIM + o] = w[o * pitch + k];
  }
}

// y = x wᵀ + bias for some rows: each panel of weights is turned round into the nearest cache, and used at once.
void multiply_panels(const float* x, int64_t rows, int64_t inputs, const float* w, const float* bias, int64_t outputs,
                     float* y, int level) {
  const Sweep* sweeps = level == WITH_VNNI ? SWEEPS : SWEEPS_AVX2;
  const int64_t tiles = (rows + TALL - 1) / TALL, panels = (outputs + PANEL - 1) / PANEL;
#pragma omp parallel if (shares(rows * inputs * outputs))
  {
    static thread_local std::vector<float> near;
    near.resize(NEAR * PANEL);
#pragma omp for schedule(static)
    for (int64_t panel = 0; panel < panels; ++panel) {
      const int64_t o = panel * PANEL, wide = outputs - o < PANEL ? outputs - o : PANEL;
      for (int64_t k = 0; k < inputs; k += NEAR) {
        const int64_t deep = inputs - k < NEAR ? inputs - k : NEAR;
        if (level == WITH_VNNI)
          pack_panel({w + o * inputs + k, 1, inputs}, deep, wide, near.data());
        else
          pack_panel_avx2(w + o * inputs + k, inputs, deep, wide, near.data());
        for (int64_t tile = 0; tile < tiles; ++tile) {
          const int64_t row = begin_tile(rows, tiles, tile), tall = begin_tile(rows, tiles, tile + 1) - row;
          sweeps[tall - 1](x + row * inputs + k, inputs, 1, near.data(), deep, bias ? bias + o : nullptr, k > 0, wide,
                           y + row * outputs + o, outputs);
        }
      }
    }
  }
}

// y = x wᵀ + bias: x (rows, inputs), w (outputs, inputs).
void multiply_few(const float* x, int64_t rows, int64_t inputs, const float* w, const float* bias, int64_t outputs,
                  float* y, int level) {
  if (rows >= SOME)
    multiply_panels(x, rows, inputs, w, bias, outputs, y, level);
  else
    multiply_dots(x, rows, inputs, w, bias, outputs, y, level);
}

// Rows whose numbers don't stand side by side, as rows whose numbers do, LYING apart.
AVX512 void lay_rows(const float* from, Matrix x, int64_t rows, int64_t inputs, float* to) {
  const int64_t whole = x.row == 1 ? rows / 16 * 16 : 0;
  for (int64_t j = 0; j < inputs; j += 16)
    for (int64_t row = 0; row < whole; row += 16)
      turn_avx512(from + row + j * x.column, x.column, inputs - j < 16 ? inputs - j : 16, to + row * LYING + j, LYING);
  for (int64_t row = whole; row < rows; ++row)
    for (int64_t j = 0; j < inputs; ++j) to[row * LYING + j] = from[row * x.row + j * x.column];
}

// y (+)= x w + bias for many rows: (rows, inputs) by (inputs, outputs), each with steps of its own.
void multiply_many(Matrix x, Matrix w, const float* bias, bool adds, int64_t rows, int64_t inputs, int64_t outputs,
                   float* y, int64_t stride) {
  static thread_local std::vector<float> room;
  room.resize(round_up(outputs < WIDE ? outputs : WIDE, PANEL) * (inputs < DEEP ? inputs : DEEP));
  float* const packed = room.data();
  const int64_t strips = (rows + STRIP - 1) / STRIP;
  const bool turned = x.column != 1;
#pragma omp parallel if (shares(rows * inputs * outputs))
  {
    static thread_local std::vector<float> near;
    near.resize(turned ? STRIP * LYING : 0);
    for (int64_t left = 0; left < outputs; left += WIDE)
      for (int64_t k = 0; k < inputs; k += DEEP) {
        const int64_t deep = inputs - k < DEEP ? inputs - k : DEEP;
        const int64_t wide = outputs - left < WIDE ? outputs - left : WIDE, panels = (wide + PANEL - 1) / PANEL;
#pragma omp for schedule(static)
        for (int64_t panel = 0; panel < panels; ++panel) {
          const int64_t o = left + panel * PANEL;
          pack_panel({w.numbers + k * w.row + o * w.column, w.row, w.column}, deep,
                     outputs - o < PANEL ? outputs - o : PANEL, packed + panel * PANEL * deep);
        }
        int64_t held = -1;  // the strip whose rows are packed
#pragma omp for schedule(static)
        for (int64_t work = 0; work < strips * panels; ++work) {
          const int64_t strip = work / panels, panel = work % panels, o = left + panel * PANEL;
          const int64_t first = strip * STRIP, count = rows - first < STRIP ? rows - first : STRIP;
          const int64_t tiles = (count + TALL - 1) / TALL;
          if (turned && held != strip)
            lay_rows(x.numbers + first * x.row + k * x.column, x, count, deep, near.data());
          for (int64_t tile = 0; tile < tiles; ++tile) {
            const int64_t row = first + begin_tile(count, tiles, tile);
            const int64_t tall = first + begin_tile(count, tiles, tile + 1) - row;
            const float* from = x.numbers + row * x.row + k * x.column;
            const float* kept = near.data() + (row - first) * LYING;
            SWEEPS[tall - 1](turned ? kept : from, turned ? LYING : x.row, 1, packed + panel * PANEL * deep,
                             deep, bias ? bias + o : nullptr, adds || k > 0,
                             outputs - o < PANEL ? outputs - o : PANEL, y + row * stride + o, stride);
          }
          held = strip;
        }
      }
  }
}

// The sum of all rows, one after the other.
AVX512 void add_rows(Matrix x, int64_t rows, int64_t columns, float* y) {
  const int64_t pieces = (columns + PANEL - 1) / PANEL;
#pragma omp parallel for schedule(static) if (shares(8 * rows * columns))
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t first = piece * PANEL, wide = columns - first < PANEL ? columns - first : PANEL;
    float sums[PANEL] = {};
    for (int64_t row = 0; row < rows; ++row) {
      const float* at = x.numbers + row * x.row + first * x.column;
      if (x.column == 1)
        for (int64_t i = 0; i < wide; ++i) sums[i] += at[i];
      else
        for (int64_t i = 0; i < wide; ++i) sums[i] += at[i * x.column];
    }
    std::memcpy(y + first, sums, wide * sizeof(float));
  }
}

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

// Where four keys stand; one that isn't there repeats the last.
inline void find_keys(const Heads& all, const float* keys, int64_t row, const int64_t* from, int64_t first,
                      const float** near) {
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t t = first + i < all.keys ? first + i : all.keys - 1;
    near[i] = keys + (from ? from[t] : row) * all.key_row + t * all.key_step;
  }
}

inline void hide_keys(const bool* allowed, int64_t step, int64_t count, float* scores) {
  for (int64_t t = 0; t < count; ++t) scores[t] = allowed[t * step] ? scores[t] : -INFINITY;
}

AVX512 void look_avx512(const Heads& all, int64_t row, int64_t head, float* scores) {
  const int64_t group = head / (all.heads / all.groups);
  const float* keys = all.key + group * all.key_head;
  const float* values = all.value + group * all.value_head;
  const int64_t* from = all.moved ? all.moved + row * all.moved_row : nullptr;
  for (int64_t at = 0; at < all.queries; ++at) {
    const float* query = all.query + row * all.query_row + head * all.query_head + at * all.query_step;
    const bool* allowed = all.allowed ? all.allowed + row * all.allowed_row + at * all.allowed_query : nullptr;
    for (int64_t t = 0; t < all.keys; t += 4) {
      const float* near[4];
      find_keys(all, keys, row, from, t, near);
      __m512 sum[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[i] = _mm512_setzero_ps();
      for (int64_t d = 0; d < all.size; d += 16) {
        const __m512 n = _mm512_loadu_ps(query + d);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) sum[i] = _mm512_fmadd_ps(n, _mm512_loadu_ps(near[i] + d), sum[i]);
      }
      const __m128 found = add_four(sum[0], sum[1], sum[2], sum[3]);
      _mm_storeu_ps(scores + t, _mm_mul_ps(found, _mm_set1_ps(all.scale)));
    }
    if (allowed) hide_keys(allowed, all.allowed_key, all.keys, scores);
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

AVX2 float find_largest(__m256 v) {
  __m128 most = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  most = _mm_max_ps(most, _mm_movehl_ps(most, most));
  return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
}

AVX2 float weigh_avx2(float* scores, int64_t count) {
  __m256 most = _mm256_set1_ps(-INFINITY);
  int64_t t = 0;
  for (; t + 8 <= count; t += 8) most = _mm256_max_ps(_mm256_loadu_ps(scores + t), most);  // what is no number is passed
  float largest = find_largest(most);
  for (; t < count; ++t) largest = scores[t] > largest ? scores[t] : largest;
  if (largest == -INFINITY) return blank(scores, count);
  const __m256 top = _mm256_set1_ps(largest), least = _mm256_set1_ps(-87.0f);
  __m256 sum = _mm256_setzero_ps();
  float total = 0.0f;
  for (t = 0; t < count; t += 8) {
    const __m256 given = _mm256_sub_ps(_mm256_loadu_ps(scores + t), top);
    __m256 x = given;
    EXPONENTIAL(__m256, x, _mm256_set1_ps, _mm256_mul_ps, ROUND_256, _mm256_fnmadd_ps, _mm256_fmadd_ps,
                _mm256_cvtps_epi32, _mm256_add_epi32, _mm256_slli_epi32, _mm256_castps_si256, _mm256_castsi256_ps)
    x = _mm256_and_ps(x, _mm256_cmp_ps(given, least, _CMP_NLT_UQ));
    x = _mm256_blendv_ps(x, given, _mm256_cmp_ps(given, given, _CMP_UNORD_Q));
    _mm256_storeu_ps(scores + t, x);
    if (t + 8 <= count)
      sum = _mm256_add_ps(sum, x);
    else  // what stands behind the last score counts for nothing
      for (int64_t i = t; i < count; ++i) total += scores[i];
  }
  return total + add_up(sum);
}

AVX2 float total_avx2(const float* x, int64_t count) {
  __m256 most = _mm256_set1_ps(-INFINITY), strange = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    strange = _mm256_or_ps(strange, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    most = _mm256_max_ps(v, most);
  }
  float largest = find_largest(most);
  bool odd = _mm256_movemask_ps(strange) != 0;
  for (; i < count; ++i) {
    odd = odd || std::isnan(x[i]);
    largest = x[i] > largest ? x[i] : largest;
  }
  if (odd) return NAN;
  if (std::isinf(largest)) return largest;
  const __m256 top = _mm256_set1_ps(largest), least = _mm256_set1_ps(-87.0f);
  __m256 total = _mm256_setzero_ps();
  for (i = 0; i + 8 <= count; i += 8) {
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

// The weighted sum of the values, BLOCKS registers of it at once: several sums, or each would wait for the last product.
template <int BLOCKS>
AVX2 void gather_avx2(const Heads& all, const float* scores, const float* values, int64_t row, const int64_t* from,
                      float share, float* out) {
  __m256 sum[BLOCKS];
#pragma GCC unroll 4
  for (int b = 0; b < BLOCKS; ++b) sum[b] = _mm256_setzero_ps();
  for (int64_t t = 0; t < all.keys; ++t) {
    const __m256 weight = _mm256_set1_ps(scores[t]);
    const float* near = values + (from ? from[t] : row) * all.value_row + t * all.value_step;
#pragma GCC unroll 4
    for (int b = 0; b < BLOCKS; ++b) sum[b] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(near + b * 8), sum[b]);
  }
#pragma GCC unroll 4
  for (int b = 0; b < BLOCKS; ++b) _mm256_storeu_ps(out + b * 8, _mm256_mul_ps(sum[b], _mm256_set1_ps(share)));
}

AVX2 void look_avx2(const Heads& all, int64_t row, int64_t head, float* scores) {
  const int64_t group = head / (all.heads / all.groups);
  const float* keys = all.key + group * all.key_head;
  const float* values = all.value + group * all.value_head;
  const int64_t* from = all.moved ? all.moved + row * all.moved_row : nullptr;
  for (int64_t at = 0; at < all.queries; ++at) {
    const float* query = all.query + row * all.query_row + head * all.query_head + at * all.query_step;
    const bool* allowed = all.allowed ? all.allowed + row * all.allowed_row + at * all.allowed_query : nullptr;
    for (int64_t t = 0; t < all.keys; t += 4) {
      const float* near[4];
      find_keys(all, keys, row, from, t, near);
      __m256 sum[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[i] = _mm256_setzero_ps();
      for (int64_t d = 0; d < all.size; d += 8) {
        const __m256 n = _mm256_loadu_ps(query + d);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) sum[i] = _mm256_fmadd_ps(n, _mm256_loadu_ps(near[i] + d), sum[i]);
      }
      const __m128 found = add_four(sum[0], sum[1], sum[2], sum[3]);
      _mm_storeu_ps(scores + t, _mm_mul_ps(found, _mm_set1_ps(all.scale)));
    }
    if (allowed) hide_keys(allowed, all.allowed_key, all.keys, scores);
    const float total = weigh_avx2(scores, all.keys);
    float* out = all.out + ((row * all.queries + at) * all.heads + head) * all.size;
    int64_t d = 0;
    for (; d + 32 <= all.size; d += 32) gather_avx2<4>(all, scores, values + d, row, from, 1.0f / total, out + d);
    for (; d + 16 <= all.size; d += 16) gather_avx2<2>(all, scores, values + d, row, from, 1.0f / total, out + d);
    for (; d < all.size; d += 8) gather_avx2<1>(all, scores, values + d, row, from, 1.0f / total, out + d);
  }
}

// ---- attention of whole sequences, which is learned: softmax(q kᵀ · scale) v and its way back, with AVX-512 alone
//
// A head of a row is one thread's, and the scores of some of its queries are all that is held of them; the way back
// makes them again from the queries, the keys and one number a query, the log of its sum. So memory grows with length.

constexpr int64_t ASKING = 24;  // queries whose scores are held at once

// ROWS rows by BLOCKS registers of outputs: y (+)= x w, from rows of any steps and from weights that stand as they are.
template <int ROWS, int BLOCKS>
AVX512 void brush_avx512(const float* x, int64_t row, int64_t column, const float* w, int64_t pitch, int64_t inputs,
                         bool adds, float* y, int64_t stride) {
  __m512 sum[ROWS][BLOCKS];
#pragma GCC unroll 12
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int b = 0; b < BLOCKS; ++b) sum[r][b] = adds ? _mm512_loadu_ps(y + r * stride + b * 16) : _mm512_setzero_ps();
  for (int64_t k = 0; k < inputs; ++k) {
    __m512 v[BLOCKS];
#pragma GCC unroll 4
    for (int b = 0; b < BLOCKS; ++b) v[b] = _mm512_loadu_ps(w + k * pitch + b * 16);
#pragma GCC unroll 12
    for (int r = 0; r < ROWS; ++r) {
      const __m512 n = _mm512_set1_ps(x[r * row + k * column]);
#pragma GCC unroll 4
      for (int b = 0; b < BLOCKS; ++b) sum[r][b] = _mm512_fmadd_ps(n, v[b], sum[r][b]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int b = 0; b < BLOCKS; ++b) _mm512_storeu_ps(y + r * stride + b * 16, sum[r][b]);
}

using Brush = void (*)(const float*, int64_t, int64_t, const float*, int64_t, int64_t, bool, float*, int64_t);
#define UP_TO_SIX(BLOCKS)                                                                                 \
  brush_avx512<1, BLOCKS>, brush_avx512<2, BLOCKS>, brush_avx512<3, BLOCKS>, brush_avx512<4, BLOCKS>,     \
      brush_avx512<5, BLOCKS>, brush_avx512<6, BLOCKS>
#define UP_TO_TWELVE(BLOCKS)                                                                              \
  UP_TO_SIX(BLOCKS), brush_avx512<7, BLOCKS>, brush_avx512<8, BLOCKS>, brush_avx512<9, BLOCKS>,           \
      brush_avx512<10, BLOCKS>, brush_avx512<11, BLOCKS>, brush_avx512<12, BLOCKS>
constexpr Brush WIDE_BRUSHES[] = {UP_TO_SIX(4)}, BRUSHES[] = {UP_TO_TWELVE(2)}, NARROW_BRUSHES[] = {UP_TO_TWELVE(1)};

// y (+)= x w: (rows, inputs) by (inputs, outputs), of which there are whole registers.
void multiply_near(Matrix x, const float* w, int64_t pitch, int64_t rows, int64_t inputs, int64_t outputs, bool adds,
                   float* y, int64_t stride) {
  for (int64_t o = 0; o < outputs;) {
    const int64_t wide = outputs - o >= 64 ? 64 : outputs - o >= 32 ? 32 : 16, most = wide == 64 ? 6 : 12;
    const Brush* brushes = wide == 64 ? WIDE_BRUSHES : wide == 32 ? BRUSHES : NARROW_BRUSHES;
    const int64_t tiles = (rows + most - 1) / most;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = begin_tile(rows, tiles, tile), tall = begin_tile(rows, tiles, tile + 1) - row;
      brushes[tall - 1](x.numbers + row * x.row, x.row, x.column, w + o, pitch, inputs, adds, y + row * stride + o,
                        stride);
    }
    o += wide;
  }
}

// Vectors of some positions as columns, (size, wide), zeros behind the last.
AVX512 void turn_round(const float* from, int64_t step, int64_t count, int64_t size, float* to, int64_t wide) {
  for (int64_t t = 0; t < count; t += 16)
    for (int64_t d = 0; d < size; d += 16)
      turn_avx512(from + t * step + d, step, count - t < 16 ? count - t : 16, to + d * wide + t, wide);
}

// What one query sees: scores are scaled, and those of what is hidden, or stands behind the last, are -inf.
AVX512 void hide_avx512(float* scores, int64_t count, int64_t wide, float scale, const bool* allowed, int64_t step) {
  const __m512 by = _mm512_set1_ps(scale), none = _mm512_set1_ps(-INFINITY);
  for (int64_t t = 0; t < wide; t += 16) {
    __mmask16 there = count - t >= 16 ? 0xffff : count > t ? (1u << (count - t)) - 1 : 0;
    if (allowed && step == 1) {
      const __m128i seen = _mm_maskz_loadu_epi8(there, allowed + t);
      there &= _mm_test_epi8_mask(seen, seen);
    } else if (allowed && step == 0) {
      there = *allowed ? there : 0;
    } else if (allowed) {
      for (int64_t i = t; i < t + 16 && i < count; ++i)
        if (!allowed[i * step]) there &= ~(1u << (i - t));
    }
    _mm512_storeu_ps(scores + t, _mm512_mask_mul_ps(none, there, _mm512_loadu_ps(scores + t), by));
  }
}

// e^(x - top) in place, zero for -inf; their sum.
AVX512 float exponentiate_avx512(float* x, int64_t wide, float largest) {
  const __m512 top = _mm512_set1_ps(largest), least = _mm512_set1_ps(-87.0f);
  __m512 total = _mm512_setzero_ps();
  for (int64_t t = 0; t < wide; t += 16) {
    const __m512 given = _mm512_sub_ps(_mm512_loadu_ps(x + t), top);
    const __mmask16 odd = _mm512_cmp_ps_mask(given, given, _CMP_UNORD_Q);
    const __mmask16 counts = _mm512_cmp_ps_mask(given, least, _CMP_NLT_UQ);
    __m512 v = given;
    EXPONENTIAL(__m512, v, _mm512_set1_ps, _mm512_mul_ps, ROUND_512, _mm512_fnmadd_ps, _mm512_fmadd_ps,
                _mm512_cvtps_epi32, _mm512_add_epi32, _mm512_slli_epi32, _mm512_castps_si512, _mm512_castsi512_ps)
    v = _mm512_mask_mov_ps(_mm512_maskz_mov_ps(counts, v), odd, given);
    _mm512_storeu_ps(x + t, v);
    total = _mm512_add_ps(total, v);
  }
  return _mm512_reduce_add_ps(total);
}

AVX512 float find_largest_avx512(const float* x, int64_t wide) {
  __m512 most = _mm512_set1_ps(-INFINITY);
  for (int64_t t = 0; t < wide; t += 16) most = _mm512_max_ps(_mm512_loadu_ps(x + t), most);
  return _mm512_reduce_max_ps(most);
}

AVX512 float add_products(const float* a, const float* b, int64_t count) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < count; i += 16) sum = _mm512_fmadd_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i), sum);
  return _mm512_reduce_add_ps(sum);
}

// Some queries of a head: which, how many keys they see at most, and in how many registers' room.
struct Asking {
  int64_t first, count, seen, wide;
};

Asking ask(const Heads& all, bool causal, int64_t first) {
  const int64_t count = all.queries - first < ASKING ? all.queries - first : ASKING;
  const int64_t seen = causal && first + count < all.keys ? first + count : all.keys;
  return {first, count, seen, round_up(seen, 16)};
}

// Their scores, hidden where they may not look: (count, pitch).
AVX512 void score_avx512(const Heads& all, bool causal, int64_t row, const float* query, Asking some,
                         const float* turned, float* scores, int64_t pitch) {
  multiply_near({query + some.first * all.query_step, all.query_step, 1}, turned, pitch, some.count, all.size,
                some.wide, false, scores, pitch);
  for (int64_t i = 0; i < some.count; ++i) {
    const int64_t at = some.first + i;
    hide_avx512(scores + i * pitch, causal && at + 1 < all.keys ? at + 1 : all.keys, some.wide, all.scale,
                all.allowed ? all.allowed + row * all.allowed_row + at * all.allowed_query : nullptr, all.allowed_key);
  }
}

// `logs`: (queries,), the log of each query's sum; infinite for one that may look at nothing, which sees zeros.
AVX512 void attend_avx512(const Heads& all, bool causal, int64_t row, int64_t head, float* logs, float* room) {
  const int64_t group = head / (all.heads / all.groups), pitch = round_up(all.keys, 16), step = all.heads * all.size;
  const float* query = all.query + row * all.query_row + head * all.query_head;
  const float* value = all.value + row * all.value_row + group * all.value_head;
  float* const turned = room;
  float* const scores = room + all.size * pitch;
  turn_round(all.key + row * all.key_row + group * all.key_head, all.key_step, all.keys, all.size, turned, pitch);
  for (int64_t first = 0; first < all.queries; first += ASKING) {
    const Asking some = ask(all, causal, first);
    float* const out = all.out + (row * all.queries + first) * step + head * all.size;
    float totals[ASKING];
    score_avx512(all, causal, row, query, some, turned, scores, pitch);
    for (int64_t i = 0; i < some.count; ++i) {
      const float largest = find_largest_avx512(scores + i * pitch, some.wide);
      totals[i] = exponentiate_avx512(scores + i * pitch, some.wide, largest == -INFINITY ? 0.0f : largest);
      const bool blind = totals[i] == 0.0f;  // a number that is none isn't hidden
      logs[first + i] = blind ? INFINITY : largest + std::log(totals[i]);
      if (blind) totals[i] = 1.0f;
    }
    multiply_near({scores, pitch, 1}, value, all.value_step, some.count, some.seen, all.size, false, out, step);
    for (int64_t i = 0; i < some.count; ++i)
      for (int64_t d = 0; d < all.size; d += 16)
        _mm512_storeu_ps(out + i * step + d, _mm512_div_ps(_mm512_loadu_ps(out + i * step + d), _mm512_set1_ps(totals[i])));
  }
}

// Gradients of queries, (rows, queries, heads, size), and of keys and values, (rows, keys, groups, size), zeros at first.
struct Slopes {
  const float* slope;  // of what was seen
  int64_t row, head, step;
  float *query, *key, *value;
};

AVX512 void attend_back_avx512(const Heads& all, bool causal, int64_t row, int64_t group, const float* logs,
                               const Slopes& to, float* room) {
  const int64_t fan = all.heads / all.groups, pitch = round_up(all.keys, 16);
  const int64_t step = all.heads * all.size, back = all.groups * all.size;
  const float* key = all.key + row * all.key_row + group * all.key_head;
  const float* value = all.value + row * all.value_row + group * all.value_head;
  float* const turned = room;
  float* const turned_value = turned + all.size * pitch;
  float* const shares = turned_value + all.size * pitch;
  float* const slopes = shares + ASKING * pitch;
  float* const to_key = to.key + row * all.keys * back + group * all.size;
  float* const to_value = to.value + row * all.keys * back + group * all.size;
  turn_round(key, all.key_step, all.keys, all.size, turned, pitch);
  turn_round(value, all.value_step, all.keys, all.size, turned_value, pitch);
  for (int64_t head = group * fan; head < (group + 1) * fan; ++head) {
    const float* query = all.query + row * all.query_row + head * all.query_head;
    const float* slope = to.slope + row * to.row + head * to.head;
    const float* log = logs + (row * all.heads + head) * all.queries;
    for (int64_t first = 0; first < all.queries; first += ASKING) {
      const Asking some = ask(all, causal, first);
      const float* asked = query + first * all.query_step;
      const float* given = slope + first * to.step;
      const float* out = all.out + (row * all.queries + first) * step + head * all.size;
      score_avx512(all, causal, row, query, some, turned, shares, pitch);
      multiply_near({given, to.step, 1}, turned_value, pitch, some.count, all.size, some.wide, false, slopes, pitch);
      for (int64_t i = 0; i < some.count; ++i) {
        float* const share = shares + i * pitch;
        exponentiate_avx512(share, some.wide, log[first + i]);
        const __m512 mean = _mm512_set1_ps(add_products(given + i * to.step, out + i * step, all.size));
        for (int64_t t = 0; t < some.wide; t += 16) {
          const __m512 weight = _mm512_mul_ps(_mm512_loadu_ps(share + t), _mm512_set1_ps(all.scale));
          float* const at = slopes + i * pitch + t;
          _mm512_storeu_ps(at, _mm512_mul_ps(weight, _mm512_sub_ps(_mm512_loadu_ps(at), mean)));
        }
      }
      multiply_near({slopes, pitch, 1}, key, all.key_step, some.count, some.seen, all.size, false,
                    to.query + (row * all.queries + first) * step + head * all.size, step);
      multiply_near({slopes, 1, pitch}, asked, all.query_step, some.seen, some.count, all.size, true, to_key, back);
      multiply_near({shares, 1, pitch}, given, to.step, some.seen, some.count, all.size, true, to_value, back);
    }
  }
}

// ---- the selective scan: h_t = e^(d_t A) h_(t-1) + d_t u_t B_t, y_t = C_t h_t, for some channels of one row
//
// Plain loops over LANES channels, which the compiler turns into the instructions of whoever they are inlined into.

#define INLINED inline __attribute__((always_inline))
#define SCAN512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma,prefer-vector-width=512")))

constexpr int64_t LANES = 16;  // channels that run together
constexpr int64_t SPAN = 64;   // positions between two states that are kept for the way back
constexpr float LOG2E = 1.44269504f;

struct Sequence {
  int64_t time, inner, states;
  const float *u, *delta;  // (time, inner)
  const float *B, *C;      // (time, states)
  int64_t B_step, C_step;  // from one position to the next
  const float* A;          // (states, inner)
};

// 2^x to single precision; 1 at 0 exactly, so that a step of 0 changes nothing.
INLINED float power_of_two(float x) {
  x = x < -126.0f ? -126.0f : x;  // beyond it nothing is left
  x = x > 127.4f ? 127.4f : x;
  const float magic = 12582912.0f;  // 1.5 · 2^23: what is added to it is rounded
  const float rounded = x + magic;
  int32_t whole;
  std::memcpy(&whole, &rounded, 4);
  const float f = x - (rounded - magic);
  float p = 1.535336188319500e-4f;
  p = __builtin_fmaf(p, f, 1.339887440266574e-3f);
  p = __builtin_fmaf(p, f, 9.618437357674640e-3f);
  p = __builtin_fmaf(p, f, 5.550332471162809e-2f);
  p = __builtin_fmaf(p, f, 2.402264791363012e-1f);
  p = __builtin_fmaf(p, f, 6.931472028550421e-1f);
  p = __builtin_fmaf(p, f, 1.0f);
  const int32_t bits = (whole + 127) << 23;  // what is left of the magic number is shifted away
  float scale;
  std::memcpy(&scale, &bits, 4);
  return p * scale;
}

// One chunk from `state`, which becomes the state behind it: what it writes, and, where they are wanted, the decays and
// states of all its positions, (positions, states, LANES).
INLINED void run_span(const Sequence& all, int64_t from, int64_t to, int64_t channel, float* state, float* y,
                      float* decays, float* states) {
  for (int64_t t = from; t < to; ++t) {
    const float* u = all.u + t * all.inner + channel;
    const float* delta = all.delta + t * all.inner + channel;
    float driven[LANES], step[LANES], sum[LANES];
#pragma omp simd
    for (int64_t l = 0; l < LANES; ++l) {
      driven[l] = delta[l] * u[l];
      step[l] = delta[l] * LOG2E;
      sum[l] = 0.0f;
    }
    for (int64_t n = 0; n < all.states; ++n) {
      const float* A = all.A + n * all.inner + channel;
      const float b = all.B[t * all.B_step + n], c = all.C[t * all.C_step + n];
      float* h = state + n * LANES;
      float* const kept = decays ? decays + ((t - from) * all.states + n) * LANES : nullptr;
      float* const seen = states ? states + ((t - from) * all.states + n) * LANES : nullptr;
      float decay[LANES], now[LANES];
#pragma omp simd
      for (int64_t l = 0; l < LANES; ++l) {
        decay[l] = power_of_two(step[l] * A[l]);
        now[l] = __builtin_fmaf(decay[l], h[l], driven[l] * b);
        sum[l] = __builtin_fmaf(c, now[l], sum[l]);
      }
      std::memcpy(h, now, sizeof now);
      if (kept) std::memcpy(kept, decay, sizeof decay);
      if (seen) std::memcpy(seen, now, sizeof now);
    }
    if (y) std::memcpy(y + t * all.inner + channel, sum, sizeof sum);
  }
}

struct Gradients {
  const float* y;          // (time, inner)
  float *u, *delta;        // (time, inner)
  float *B, *C;            // (time, states), of this part of the channels
  float* A;                // (states, inner), of this row
  float* carried;          // (states, inner): of the last state, and in the end of the first
  const float* borders;    // (spans, states, inner)
};

// The way back through one chunk, for LANES channels. Sums over channels are kept lane by lane in `grad_B` and `grad_C`,
// (positions, states, LANES).
INLINED void return_span(const Sequence& all, const Gradients& grad, int64_t from, int64_t to, int64_t channel,
                         const float* border, const float* decays, const float* states, float* grad_B, float* grad_C) {
  for (int64_t t = to - 1; t >= from; --t) {
    const float* u = all.u + t * all.inner + channel;
    const float* delta = all.delta + t * all.inner + channel;
    const float* grad_y = grad.y + t * all.inner + channel;
    float driven[LANES], into[LANES], steps[LANES];
#pragma omp simd
    for (int64_t l = 0; l < LANES; ++l) {
      driven[l] = delta[l] * u[l];
      into[l] = steps[l] = 0.0f;
    }
    for (int64_t n = 0; n < all.states; ++n) {
      const int64_t at = ((t - from) * all.states + n) * LANES;
      const float* decay = decays + at;
      const float* now = states + at;
      const float* before = t > from ? now - all.states * LANES : border + n * all.inner;
      const float* A = all.A + n * all.inner + channel;
      float* carried = grad.carried + n * all.inner + channel;
      float* grad_A = grad.A + n * all.inner + channel;
      const float b = all.B[t * all.B_step + n], c = all.C[t * all.C_step + n];
#pragma omp simd
      for (int64_t l = 0; l < LANES; ++l) {
        const float flow = __builtin_fmaf(c, grad_y[l], carried[l]);
        grad_C[at + l] = __builtin_fmaf(now[l], grad_y[l], grad_C[at + l]);
        grad_B[at + l] = __builtin_fmaf(flow, driven[l], grad_B[at + l]);
        into[l] = __builtin_fmaf(flow, b, into[l]);
        const float left = decay[l] * flow;
        carried[l] = left;
        const float moved = left * before[l];
        steps[l] = __builtin_fmaf(moved, A[l], steps[l]);
        grad_A[l] = __builtin_fmaf(moved, delta[l], grad_A[l]);
      }
    }
    float* grad_u = grad.u + t * all.inner + channel;
    float* grad_delta = grad.delta + t * all.inner + channel;
#pragma omp simd
    for (int64_t l = 0; l < LANES; ++l) {
      grad_u[l] = into[l] * delta[l];
      grad_delta[l] = __builtin_fmaf(into[l], u[l], steps[l]);
    }
  }
}

INLINED void scan_channels(const Sequence& all, int64_t first, int64_t last, float* y, float* state, float* borders) {
  std::vector<float> held(all.states * LANES);
  for (int64_t channel = first; channel < last; channel += LANES) {
    for (int64_t n = 0; n < all.states; ++n)
      std::memcpy(held.data() + n * LANES, state + n * all.inner + channel, LANES * sizeof(float));
    for (int64_t from = 0; from < all.time; from += SPAN) {
      if (borders)
        for (int64_t n = 0; n < all.states; ++n)
          std::memcpy(borders + (from / SPAN * all.states + n) * all.inner + channel, held.data() + n * LANES,
                      LANES * sizeof(float));
      const int64_t to = from + SPAN < all.time ? from + SPAN : all.time;
      run_span(all, from, to, channel, held.data(), y, nullptr, nullptr);
    }
    for (int64_t n = 0; n < all.states; ++n)
      std::memcpy(state + n * all.inner + channel, held.data() + n * LANES, LANES * sizeof(float));
  }
}

INLINED void return_channels(const Sequence& all, const Gradients& grad, int64_t first, int64_t last) {
  const int64_t room = SPAN * all.states * LANES;
  std::vector<float> held(all.states * LANES), decays(room), states(room), grad_B(room), grad_C(room);
  for (int64_t from = (all.time - 1) / SPAN * SPAN; from >= 0; from -= SPAN) {
    const int64_t to = from + SPAN < all.time ? from + SPAN : all.time;
    std::memset(grad_B.data(), 0, room * sizeof(float));
    std::memset(grad_C.data(), 0, room * sizeof(float));
    for (int64_t channel = first; channel < last; channel += LANES) {
      const float* border = grad.borders + from / SPAN * all.states * all.inner + channel;
      for (int64_t n = 0; n < all.states; ++n)
        std::memcpy(held.data() + n * LANES, border + n * all.inner, LANES * sizeof(float));
      run_span(all, from, to, channel, held.data(), nullptr, decays.data(), states.data());
      return_span(all, grad, from, to, channel, border, decays.data(), states.data(), grad_B.data(), grad_C.data());
    }
    for (int64_t at = 0; at < (to - from) * all.states; ++at) {
      float b = 0.0f, c = 0.0f;
      for (int64_t l = 0; l < LANES; ++l) {
        b += grad_B[at * LANES + l];
        c += grad_C[at * LANES + l];
      }
      grad.B[from * all.states + at] = b;
      grad.C[from * all.states + at] = c;
    }
  }
}

SCAN512 void scan_avx512(const Sequence& all, int64_t first, int64_t last, float* y, float* state, float* borders) {
  scan_channels(all, first, last, y, state, borders);
}
AVX2 void scan_avx2(const Sequence& all, int64_t first, int64_t last, float* y, float* state, float* borders) {
  scan_channels(all, first, last, y, state, borders);
}
SCAN512 void return_avx512(const Sequence& all, const Gradients& grad, int64_t first, int64_t last) {
  return_channels(all, grad, first, last);
}
AVX2 void return_avx2(const Sequence& all, const Gradients& grad, int64_t first, int64_t last) {
  return_channels(all, grad, first, last);
}

// ---- messages along edges: what comes to a node is the sum of w · max(0, x + k) over its edges, or of w · x
//
// Edges stand in the order of the node where they end; on the way back, of the node where they begin.

struct Edges {
  int64_t nodes, width;
  const float* x;         // (nodes, width)
  const float* kinds;     // (sorts, width), what an edge of each sort adds; or null
  const float* weights;   // (edges), or null
  const int64_t *starts;  // (nodes + 1), where each node's edges begin
  const int64_t *others;  // (edges), the node at the other end
  const int64_t *ids;     // (edges), each edge's number
  const int64_t *sorts;   // (edges), by the edge's number
};

INLINED void hear_nodes(const Edges& all, int64_t first, int64_t last, float* out) {
  const int64_t width = all.width;
  for (int64_t node = first; node < last; ++node) {
    float* __restrict y = out + node * width;
    std::fill(y, y + width, 0.0f);
    for (int64_t at = all.starts[node]; at < all.starts[node + 1]; ++at) {
      const int64_t edge = all.ids[at];
      const float weight = all.weights ? all.weights[edge] : 1.0f;
      const float* __restrict said = all.x + all.others[at] * width;
      if (!all.kinds) {
        for (int64_t c = 0; c < width; ++c) y[c] += weight * said[c];
        continue;
      }
      const float* __restrict kind = all.kinds + all.sorts[edge] * width;
      for (int64_t c = 0; c < width; ++c) {
        const float sum = said[c] + kind[c];
        y[c] += weight * (sum < 0.0f ? 0.0f : sum);  // what is no number stays none
      }
    }
  }
}

// From the gradient of what was heard to that of x, and to that of the kinds, which are added up.
INLINED void tell_nodes(const Edges& all, int64_t first, int64_t last, const float* grad, float* grad_x,
                        float* grad_kinds) {
  const int64_t width = all.width;
  for (int64_t node = first; node < last; ++node) {
    float* __restrict mine = grad_x + node * width;
    std::fill(mine, mine + width, 0.0f);
    const float* __restrict said = all.x + node * width;
    for (int64_t at = all.starts[node]; at < all.starts[node + 1]; ++at) {
      const int64_t edge = all.ids[at];
      const float weight = all.weights ? all.weights[edge] : 1.0f;
      const float* __restrict heard = grad + all.others[at] * width;
      if (!all.kinds) {
        for (int64_t c = 0; c < width; ++c) mine[c] += weight * heard[c];
        continue;
      }
      const float* __restrict kind = all.kinds + all.sorts[edge] * width;
      float* __restrict theirs = grad_kinds + all.sorts[edge] * width;
      for (int64_t c = 0; c < width; ++c) {
        const float passed = said[c] + kind[c] > 0.0f ? weight * heard[c] : 0.0f;
        mine[c] += passed;
        theirs[c] += passed;
      }
    }
  }
}

SCAN512 void hear_avx512(const Edges& all, int64_t first, int64_t last, float* out) {
  hear_nodes(all, first, last, out);
}
AVX2 void hear_avx2(const Edges& all, int64_t first, int64_t last, float* out) { hear_nodes(all, first, last, out); }
SCAN512 void tell_avx512(const Edges& all, int64_t first, int64_t last, const float* grad, float* grad_x,
                         float* grad_kinds) {
  tell_nodes(all, first, last, grad, grad_x, grad_kinds);
}
AVX2 void tell_avx2(const Edges& all, int64_t first, int64_t last, const float* grad, float* grad_x,
                    float* grad_kinds) {
  tell_nodes(all, first, last, grad, grad_x, grad_kinds);
}

// ---- a step of a stack: calls that are written down once and played for every token

enum Kind : int64_t { CENTRE, ROOT, SINGLE, BYTES, BRAINS, ACTIVATE, ADD, TIMES, TURN, LOOK, RECALL, AROUND, FETCH, HALVES };
enum Number : int64_t { FLOAT, BYTE, BRAIN, HALF };
enum Activation : int64_t { RELU, GELU, GELU_TANH, SILU, TANH };

// Registers are tables of (rows, width), each behind the last.
struct Call {
  int64_t kind, from, key, value, to;  // registers
  int64_t inputs, outputs;       // of a product; of a look: channels of queries and of keys; of a table: width and height
  int64_t what;  // which activation; of a product of 8 bits: its levels; of a look: numbers of a head; of a table: which
  const void *weight, *sums;
  const float *scale, *bias;
  double number;  // what is added to a variance, or scores and vectors of a table are multiplied by
};

// What was computed before a step: vectors of `time` positions, of each row or, with a step of 0, of all alike.
struct Given {
  const float* numbers;
  int64_t to, width, time, row_step, time_step;
};

// What an attention looks at; one that remembers its own past writes position `at` first.
struct Remembered {
  float *key, *value;
  int64_t key_row, key_head, key_step, value_row, value_head, value_step;
  int64_t keys, at;
  int64_t* moved;
  int64_t moved_row;
  const bool* allowed;
  int64_t allowed_row, allowed_key;
  int64_t fan;  // rows that share an entry
};

INLINED float exponential(float x) { return power_of_two(x * LOG2E); }

// 1 - 2 / (e^2x + 1), which is right at both ends.
INLINED float hyperbolic_tangent(float x) { return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f); }

// x Φ(x): the complementary error function by its Chebyshev fit (Press et al., Numerical Recipes, 6.2), to 2e-7.
INLINED float gaussian_unit(float x) {
  const float z = (x < 0.0f ? -x : x) * 0.70710678f, t = 1.0f / (1.0f + 0.5f * z);
  float p = 0.17087277f;
  p = __builtin_fmaf(p, t, -0.82215223f);
  p = __builtin_fmaf(p, t, 1.48851587f);
  p = __builtin_fmaf(p, t, -1.13520398f);
  p = __builtin_fmaf(p, t, 0.27886807f);
  p = __builtin_fmaf(p, t, -0.18628806f);
  p = __builtin_fmaf(p, t, 0.09678418f);
  p = __builtin_fmaf(p, t, 0.37409196f);
  p = __builtin_fmaf(p, t, 1.00002368f);
  const float rest = 0.5f * t * exponential(__builtin_fmaf(p, t, -1.26551223f - z * z));
  return x * (x < 0.0f ? rest : 1.0f - rest);
}

// x (1 + tanh u) / 2 is x σ(2u), which loses nothing where the tangent is near -1.
constexpr float FIT = 1.59576912f;  // 2 √(2/π)
INLINED float fitted_share(float x) { return 1.0f / (1.0f + exponential(-FIT * (x + 0.044715f * x * x * x))); }
INLINED float fitted_unit(float x) { return x * fitted_share(x); }

INLINED void activate_row(float* x, int64_t width, int64_t what) {
  if (what == RELU) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) x[i] = x[i] < 0.0f ? 0.0f : x[i];
  } else if (what == GELU) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) x[i] = gaussian_unit(x[i]);
  } else if (what == GELU_TANH) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i)
      x[i] = fitted_unit(x[i]);
  } else if (what == SILU) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) x[i] = x[i] / (1.0f + exponential(-x[i]));
  } else {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) x[i] = hyperbolic_tangent(x[i]);
  }
}

// The slopes of activations. Φ(x) + x φ(x); of the fit by tanh; σ(x) (1 + x (1 - σ(x))).
INLINED float gaussian_slope(float x) {
  const float share = x == 0.0f ? 0.5f : gaussian_unit(x) / x;
  return __builtin_fmaf(x * 0.39894228f, exponential(-0.5f * x * x), share);
}
INLINED float fitted_slope(float x) {
  const float grown = exponential(FIT * (x + 0.044715f * x * x * x)), share = 1.0f / (grown + 1.0f);
  return grown * share * (1.0f + x * share * FIT * (1.0f + 0.134145f * x * x));
}
INLINED float logistic_unit(float x) { return x / (1.0f + exponential(-x)); }
INLINED float logistic_slope(float x) {
  const float share = 1.0f / (1.0f + exponential(-x));
  return share * (1.0f + x * (1.0f - share));
}

INLINED void slope_row(const float* x, const float* slope, int64_t width, int64_t what, float* y) {
  if (what == GELU) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) y[i] = slope[i] * gaussian_slope(x[i]);
  } else if (what == GELU_TANH) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) y[i] = slope[i] * fitted_slope(x[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) y[i] = slope[i] * logistic_slope(x[i]);
  }
}

// One piece of an activation, or of its way back where a slope is given.
INLINED void bend_piece(const float* x, const float* slope, int64_t count, int64_t what, float* y) {
  if (slope) return slope_row(x, slope, count, what, y);
  std::memcpy(y, x, count * sizeof(float));
  activate_row(y, count, what);
}

// f(x), and f'(x) in the place of x: what costs most of both is computed once.
INLINED void replace_piece(float* x, int64_t count, int64_t what, float* y) {
  if (what == GELU) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      y[i] = gaussian_unit(x[i]);
      x[i] = gaussian_slope(x[i]);
    }
  } else if (what == GELU_TANH) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float share = fitted_share(x[i]), square = x[i] * x[i];
      y[i] = x[i] * share;
      x[i] = share * (1.0f + x[i] * (1.0f - share) * FIT * (1.0f + 0.134145f * square));
    }
  } else if (what == SILU) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      y[i] = logistic_unit(x[i]);
      x[i] = logistic_slope(x[i]);
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      y[i] = hyperbolic_tangent(x[i]);
      x[i] = 1.0f - y[i] * y[i];
    }
  }
}

SCAN512 void bend_avx512(const float* x, const float* slope, int64_t count, int64_t what, float* y) {
  bend_piece(x, slope, count, what, y);
}
AVX2 void bend_avx2(const float* x, const float* slope, int64_t count, int64_t what, float* y) {
  bend_piece(x, slope, count, what, y);
}
SCAN512 void replace_avx512(float* x, int64_t count, int64_t what, float* y) { replace_piece(x, count, what, y); }
AVX2 void replace_avx2(float* x, int64_t count, int64_t what, float* y) { replace_piece(x, count, what, y); }

// ---- what stands before and behind the scan: a short convolution with its activation, and a gate; each in one pass

constexpr int64_t MOST_TAPS = 8;
constexpr int64_t ABREAST = 128;  // channels that are carried through time together

// Some channels of one row: `x` (time, inner), `tail` (taps - 1, inner), what came before; `weight` (taps, inner).
struct Taps {
  int64_t time, inner, taps;
  const float *x, *tail, *weight, *bias;
};

// What stands so many positions behind the first of the tail.
INLINED const float* find_input(const Taps& all, int64_t place) {
  const int64_t before = all.taps - 1;
  return place < before ? all.tail + place * all.inner : all.x + (place - before) * all.inner;
}

// Σ_k w_k x_(t+k) + bias
INLINED void weigh_taps(const Taps& all, int64_t t, int64_t first, int64_t count, float* sum) {
  for (int64_t l = 0; l < count; ++l) sum[l] = all.bias[first + l];
  for (int64_t k = 0; k < all.taps; ++k) {
    const float* at = find_input(all, t + k) + first;
    const float* weight = all.weight + k * all.inner + first;
#pragma omp simd
    for (int64_t l = 0; l < count; ++l) sum[l] = __builtin_fmaf(weight[l], at[l], sum[l]);
  }
}

INLINED void convolve_channels(const Taps& all, int64_t first, int64_t count, float* y) {
  float sum[ABREAST];
  for (int64_t t = 0; t < all.time; ++t) {
    weigh_taps(all, t, first, count, sum);
    float* const out = y + t * all.inner + first;
#pragma omp simd
    for (int64_t l = 0; l < count; ++l) out[l] = logistic_unit(sum[l]);
  }
}

// grad_x like x, grad_tail like the tail; grad_weight (taps + 1, inner), of this row, the bias's last.
INLINED void convolve_channels_back(const Taps& all, const float* slope, int64_t first, int64_t count, float* grad_x,
                                    float* grad_tail, float* grad_weight) {
  float sum[ABREAST], ring[MOST_TAPS][ABREAST] = {}, grads[MOST_TAPS + 1][ABREAST] = {};
  for (int64_t j = 0; j < all.time + all.taps - 1; ++j) {
    float* const now = ring[j % all.taps];
    if (j < all.time) {
      weigh_taps(all, j, first, count, sum);
      const float* given = slope + j * all.inner + first;
#pragma omp simd
      for (int64_t l = 0; l < count; ++l) {
        now[l] = given[l] * logistic_slope(sum[l]);
        grads[all.taps][l] += now[l];
      }
      for (int64_t k = 0; k < all.taps; ++k) {
        const float* at = find_input(all, j + k) + first;
#pragma omp simd
        for (int64_t l = 0; l < count; ++l) grads[k][l] = __builtin_fmaf(now[l], at[l], grads[k][l]);
      }
    } else {
      std::memset(now, 0, ABREAST * sizeof(float));
    }
    for (int64_t l = 0; l < count; ++l) sum[l] = 0.0f;
    for (int64_t k = 0; k < all.taps && k <= j; ++k) {
      const float* weight = all.weight + k * all.inner + first;
      const float* before = ring[(j - k) % all.taps];
#pragma omp simd
      for (int64_t l = 0; l < count; ++l) sum[l] = __builtin_fmaf(weight[l], before[l], sum[l]);
    }
    float* const to = j < all.taps - 1 ? grad_tail + j * all.inner : grad_x + (j - all.taps + 1) * all.inner;
    std::memcpy(to + first, sum, count * sizeof(float));
  }
  for (int64_t k = 0; k <= all.taps; ++k)
    std::memcpy(grad_weight + k * all.inner + first, grads[k], count * sizeof(float));
}

// (y + skip u) silu(gate) for some rows; `step`: from one row of gates to the next.
INLINED void pass_gate(const float* y, const float* u, const float* skip, const float* gate, int64_t step, int64_t rows,
                       int64_t inner, float* out) {
  for (int64_t row = 0; row < rows; ++row, y += inner, u += inner, gate += step, out += inner)
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) out[i] = __builtin_fmaf(skip[i], u[i], y[i]) * logistic_unit(gate[i]);
}

// grad_skip: (inner,), added to.
INLINED void pass_gate_back(const float* y, const float* u, const float* skip, const float* gate, int64_t step,
                            const float* slope, int64_t rows, int64_t inner, float* grad_y, float* grad_u,
                            float* grad_gate, float* grad_skip) {
  for (int64_t row = 0; row < rows; ++row, y += inner, u += inner, gate += step, slope += inner)
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) {
      const float share = 1.0f / (1.0f + exponential(-gate[i])), open = gate[i] * share;
      const float through = slope[i] * open;
      const int64_t at = row * inner + i;
      grad_y[at] = through;
      grad_u[at] = through * skip[i];
      grad_gate[at] = slope[i] * __builtin_fmaf(skip[i], u[i], y[i]) * share * (1.0f + gate[i] * (1.0f - share));
      grad_skip[i] = __builtin_fmaf(through, u[i], grad_skip[i]);
    }
}

#define IN_BOTH(name, takes, gives)                                  \
  SCAN512 void name##_avx512 takes { name gives; }                   \
  AVX2 void name##_avx2 takes { name gives; }
IN_BOTH(convolve_channels, (const Taps& all, int64_t first, int64_t count, float* y), (all, first, count, y))
IN_BOTH(convolve_channels_back,
        (const Taps& all, const float* slope, int64_t first, int64_t count, float* grad_x, float* grad_tail,
         float* grad_weight),
        (all, slope, first, count, grad_x, grad_tail, grad_weight))
IN_BOTH(pass_gate,
        (const float* y, const float* u, const float* skip, const float* gate, int64_t step, int64_t rows,
         int64_t inner, float* out),
        (y, u, skip, gate, step, rows, inner, out))
IN_BOTH(pass_gate_back,
        (const float* y, const float* u, const float* skip, const float* gate, int64_t step, const float* slope,
         int64_t rows, int64_t inner, float* grad_y, float* grad_u, float* grad_gate, float* grad_skip),
        (y, u, skip, gate, step, slope, rows, inner, grad_y, grad_u, grad_gate, grad_skip))

// A vector less its mean (or not), divided by its deviation, times a gain, plus a bias.
INLINED void norm_row(const float* x, int64_t width, bool centres, const Call& call, float* y) {
  const float* gain = static_cast<const float*>(call.weight);
  float sum = 0.0f, squares = 0.0f;
  if (centres)
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) sum += x[i];
  const float mean = sum / static_cast<float>(width);
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float share = 1.0f / std::sqrt(squares / static_cast<float>(width) + static_cast<float>(call.number));
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * share * (gain ? gain[i] : 1.0f);
  if (call.bias)
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) y[i] += call.bias[i];
}

// The same while a model learns: `kept`, (rows, 2), is each row's mean and what it was multiplied by.
INLINED void norm_rows(const float* x, const float* gain, const float* bias, int64_t rows, int64_t width, float eps,
                       bool centres, float* y, float* kept) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    float sum = 0.0f, squares = 0.0f;
    if (centres)
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += x[i];
    const float mean = sum / static_cast<float>(width);
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) squares = __builtin_fmaf(x[i] - mean, x[i] - mean, squares);
    const float share = 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
    if (bias)
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) y[i] = __builtin_fmaf((x[i] - mean) * share, gain[i], bias[i]);
    else
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * share * gain[i];
    kept[2 * row] = mean;
    kept[2 * row + 1] = share;
  }
}

// grad_gain and grad_bias are added to.
INLINED void norm_rows_back(const float* x, const float* gain, const float* slope, const float* kept, int64_t rows,
                            int64_t width, bool centres, float* grad_x, float* grad_gain, float* grad_bias) {
  for (int64_t row = 0; row < rows; ++row, x += width, slope += width, grad_x += width) {
    const float mean = kept[2 * row], share = kept[2 * row + 1];
    float level = 0.0f, lean = 0.0f;
#pragma omp simd reduction(+ : level, lean)
    for (int64_t i = 0; i < width; ++i) {
      const float scaled = (x[i] - mean) * share, weighed = slope[i] * gain[i];
      level += weighed;
      lean = __builtin_fmaf(weighed, scaled, lean);
      grad_gain[i] = __builtin_fmaf(slope[i], scaled, grad_gain[i]);
      grad_bias[i] += slope[i];
    }
    level = centres ? level / static_cast<float>(width) : 0.0f;
    lean /= static_cast<float>(width);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i)
      grad_x[i] = share * (slope[i] * gain[i] - level - (x[i] - mean) * share * lean);
  }
}

IN_BOTH(norm_rows,
        (const float* x, const float* gain, const float* bias, int64_t rows, int64_t width, float eps, bool centres,
         float* y, float* kept),
        (x, gain, bias, rows, width, eps, centres, y, kept))
IN_BOTH(norm_rows_back,
        (const float* x, const float* gain, const float* slope, const float* kept, int64_t rows, int64_t width,
         bool centres, float* grad_x, float* grad_gain, float* grad_bias),
        (x, gain, slope, kept, rows, width, centres, grad_x, grad_gain, grad_bias))

// Turn pairs of channels of each head, i and i + size / 2, by angles whose cosines stand before their sines.
INLINED void turn_row(const float* angles, int64_t width, int64_t size, float* x) {
  const int64_t half = size / 2;
  for (float* head = x; head < x + width; head += size)
#pragma omp simd
    for (int64_t i = 0; i < half; ++i) {
      const float first = head[i], second = head[i + half];
      head[i] = first * angles[i] - second * angles[i + half];
      head[i + half] = second * angles[i] + first * angles[i + half];
    }
}

// The vector of a token, as a table of any numbers has it.
INLINED void fetch_row(const Call& call, int64_t token, float* y) {
  const int64_t width = call.inputs, first = token * width;
  const float by = static_cast<float>(call.number);
  if (call.what == FLOAT) {
    const float* from = static_cast<const float*>(call.weight) + first;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) y[i] = from[i] * by;
  } else if (call.what == BYTE) {
    const int8_t* from = static_cast<const int8_t*>(call.weight) + first;
    const float size = call.scale[token];
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) y[i] = static_cast<float>(from[i]) * size * by;
  } else if (call.what == BRAIN) {
    const uint16_t* from = static_cast<const uint16_t*>(call.weight) + first;
    for (int64_t i = 0; i < width; ++i) {
      const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
      float whole;
      std::memcpy(&whole, &bits, 4);
      y[i] = whole * by;
    }
  }
}

SCAN512 void fetch_avx512(const Call& call, int64_t token, float* y) { fetch_row(call, token, y); }
AVX2 void fetch_avx2(const Call& call, int64_t token, float* y) { fetch_row(call, token, y); }

AVX2 void fetch_half(const Call& call, int64_t token, float* y) {
  const Half* from = static_cast<const Half*>(call.weight) + token * call.inputs;
  const float by = static_cast<float>(call.number);
  for (int64_t i = 0; i < call.inputs; ++i) y[i] = _cvtsh_ss(from[i].bits) * by;
}

INLINED void work_row(const Call& call, const float* x, float* y) {
  switch (call.kind) {
    case CENTRE:
    case ROOT:
      return norm_row(x, call.inputs, call.kind == CENTRE, call, y);
    case ACTIVATE:
      return activate_row(y, call.inputs, call.what);
    case ADD:
#pragma omp simd
      for (int64_t i = 0; i < call.inputs; ++i) y[i] += x[i];
      return;
    case TURN:
      return turn_row(x, call.inputs, call.what, y);
    default:
#pragma omp simd
      for (int64_t i = 0; i < call.inputs; ++i) y[i] *= x[i];
  }
}

SCAN512 void work_avx512(const Call& call, const float* x, float* y) { work_row(call, x, y); }
AVX2 void work_avx2(const Call& call, const float* x, float* y) { work_row(call, x, y); }

// Write what a token is remembered by; each row stands where nobody has written this position before.
void remember(const Call& call, const Remembered& state, const float* keys, const float* values, int64_t rows) {
  const int64_t size = call.what, groups = call.outputs / size;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t from = row * call.outputs + group * size;
      std::memcpy(state.key + row * state.key_row + group * state.key_head + state.at * state.key_step, keys + from,
                  size * sizeof(float));
      std::memcpy(state.value + row * state.value_row + group * state.value_head + state.at * state.value_step,
                  values + from, size * sizeof(float));
    }
    if (state.moved) state.moved[row * state.moved_row + state.at] = row;
  }
}

Heads name_heads(const float* query, const float* key, const float* value, const bool* allowed, const int64_t* moved,
                 float* out, const int64_t* sizes, const int64_t* steps, float scale) {
  return {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4],  sizes[5],  query,     key,      value,
          allowed,  moved,    out,      steps[0], steps[1],  steps[2],  steps[3],  steps[4], steps[5],
          steps[6], steps[7], steps[8], steps[9], steps[10], steps[11], steps[12], scale};
}

void look_at(const Heads& all, int level) {
  const int64_t work = all.rows * all.heads;
  // a product of a key takes several times as long as one of a matrix
  share_out(work, 4 * work * all.queries * all.keys * all.size, [&](int64_t each) {
    static thread_local std::vector<float> scores;
    if (static_cast<int64_t>(scores.size()) < all.keys + 16) scores.resize(all.keys + 16);
    (level == WITH_VNNI ? look_avx512 : look_avx2)(all, each / all.heads, each % all.heads, scores.data());
  });
}

void look_back(const Call& call, const Remembered& state, const float* query, float* out, int64_t rows, int level) {
  const int64_t size = call.what, heads = call.inputs / size, groups = call.outputs / size, fan = state.fan;
  look_at({rows / fan, heads, groups, fan, state.keys, size, query, state.key, state.value, state.allowed, state.moved,
           out, fan * call.inputs, size, call.inputs, state.key_row, state.key_head, state.key_step, state.value_row,
           state.value_head, state.value_step, state.allowed_row, 0, state.allowed_key, state.moved_row,
           static_cast<float>(call.number)},
          level);
}

// Among the positions of whole sequences of `keys` each, which stand one behind the other.
void look_around(const Call& call, const Remembered& state, const float* query, const float* key, const float* value,
                 float* out, int64_t rows, int level) {
  const int64_t size = call.what, time = state.keys;
  look_at({rows / time, call.inputs / size, call.outputs / size, time, time, size, query, key, value, state.allowed,
           nullptr, out, time * call.inputs, size, call.inputs, time * call.outputs, size, call.outputs,
           time * call.outputs, size, call.outputs, state.allowed_row, 0, state.allowed_key, 0,
           static_cast<float>(call.number)},
          level);
}

// Where a part of the channels begins: parts are whole blocks of LANES.
int64_t begin_part(int64_t inner, int64_t parts, int64_t part) { return inner / LANES * part / parts * LANES; }

// ---- a loss: log Σ e^z - sharp · z[target] - even · Σ z of a row of scores, and its gradient in their place

INLINED float lose_row(float* z, int64_t words, int64_t target, float sharp, float even) {
  float largest = -INFINITY, level = 0.0f, mass = 0.0f;
#pragma omp simd reduction(max : largest) reduction(+ : level)
  for (int64_t i = 0; i < words; ++i) {
    largest = z[i] > largest ? z[i] : largest;
    level += z[i];
  }
  const float hit = z[target];
#pragma omp simd reduction(+ : mass)
  for (int64_t i = 0; i < words; ++i) mass += z[i] = exponential(z[i] - largest);
  const float share = 1.0f / mass;
#pragma omp simd
  for (int64_t i = 0; i < words; ++i) z[i] = z[i] * share - even;
  z[target] -= sharp;
  return largest + std::log(mass) - sharp * hit - (even != 0.0f ? even * level : 0.0f);
}

SCAN512 float lose_avx512(float* z, int64_t words, int64_t target, float sharp, float even) {
  return lose_row(z, words, target, sharp, even);
}
AVX2 float lose_avx2(float* z, int64_t words, int64_t target, float sharp, float even) {
  return lose_row(z, words, target, sharp, even);
}

// ---- a step of Adam, and the norm of a gradient: all weights at once, in pieces that don't depend on the threads

constexpr int64_t PIECE = 1 << 14;  // numbers of one weight that a thread takes

struct Piece {
  int64_t weight, first, count;
};

std::vector<Piece> cut_pieces(int64_t weights, const int64_t* sizes) {
  std::vector<Piece> pieces;
  for (int64_t weight = 0; weight < weights; ++weight)
    for (int64_t first = 0; first < sizes[weight]; first += PIECE)
      pieces.push_back({weight, first, std::min(PIECE, sizes[weight] - first)});
  return pieces;
}

// How one weight is moved at one step.
struct Pace {
  float shrink, joined;  // what decay leaves of the weight; and what is added of it to the gradient, where that isn't apart
  float first, second, size, root, epsilon;
};

INLINED void move_piece(float* weight, const float* gradient, float* mean, float* square, int64_t count,
                        const Pace& pace) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float slope = gradient[i] + pace.joined * weight[i];
    mean[i] += (slope - mean[i]) * pace.first;
    square[i] = square[i] * (1.0f - pace.second) + slope * slope * pace.second;
    weight[i] = weight[i] * pace.shrink - pace.size * mean[i] / (std::sqrt(square[i]) * pace.root + pace.epsilon);
  }
}

INLINED double add_squares(const float* x, int64_t count) {
  double total = 0.0;
  for (int64_t first = 0; first < count; first += 1024) {
    const int64_t last = std::min(first + 1024, count);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = first; i < last; ++i) sum += x[i] * x[i];
    total += sum;
  }
  return total;
}

INLINED void shrink_piece(float* x, int64_t count, float share) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) x[i] *= share;
}

SCAN512 void move_piece_avx512(float* weight, const float* gradient, float* mean, float* square, int64_t count,
                               const Pace& pace) {
  move_piece(weight, gradient, mean, square, count, pace);
}
AVX2 void move_piece_avx2(float* weight, const float* gradient, float* mean, float* square, int64_t count,
                          const Pace& pace) {
  move_piece(weight, gradient, mean, square, count, pace);
}
SCAN512 double add_squares_avx512(const float* x, int64_t count) { return add_squares(x, count); }
AVX2 double add_squares_avx2(const float* x, int64_t count) { return add_squares(x, count); }

// ---- maps of a picture: norms of groups of channels, and what bends behind them
//
// Channels stand side by side, (rows, height, width, channels), in single precision or in half of it (bf16); sums are in
// single precision. A row is one thread's.

using Brain = uint16_t;  // bf16: the upper half of a number in single precision

INLINED float widen(float x) { return x; }
INLINED float widen(Brain x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float wide;
  std::memcpy(&wide, &bits, 4);
  return wide;
}

// To the nearest, of two equally near ones to the even one; what is no number stays so.
INLINED void narrow(float x, float& to) { to = x; }
INLINED void narrow(float x, Brain& to) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  to = x != x ? 0x7fc0 : static_cast<Brain>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Groups of channels of one row, each with a mean and what its numbers are multiplied by: `kept`, (groups, 2).
struct Groups {
  int64_t places, channels, groups;
  const float *gain, *bias;  // (channels,)
  bool bends;                // max(0, ·) behind the norm
};

// What a channel is multiplied by, and what is added then: (2, channels).
INLINED void find_lines(const Groups& all, const float* kept, float* lines) {
  const int64_t size = all.channels / all.groups;
  for (int64_t c = 0; c < all.channels; ++c) {
    const float mean = kept[c / size * 2], share = kept[c / size * 2 + 1];
    lines[c] = share * all.gain[c];
    lines[all.channels + c] = all.bias[c] - mean * lines[c];
  }
}

// `room`: (2, channels).
template <typename Number>
INLINED void norm_groups(const Groups& all, float eps, const Number* x, Number* y, float* kept, float* room) {
  const int64_t size = all.channels / all.groups, channels = all.channels;
  const float count = static_cast<float>(size * all.places);
  for (int64_t c = 0; c < 2 * channels; ++c) room[c] = 0.0f;
  for (int64_t place = 0; place < all.places; ++place)
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) room[c] += widen(x[place * channels + c]);
  for (int64_t group = 0; group < all.groups; ++group) {
    float sum = 0.0f;
    for (int64_t c = 0; c < size; ++c) sum += room[group * size + c];
    kept[2 * group] = sum / count;
    for (int64_t c = 0; c < size; ++c) room[group * size + c] = kept[2 * group];
  }
  for (int64_t place = 0; place < all.places; ++place)
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const float apart = widen(x[place * channels + c]) - room[c];
      room[channels + c] = __builtin_fmaf(apart, apart, room[channels + c]);
    }
  for (int64_t group = 0; group < all.groups; ++group) {
    float squares = 0.0f;
    for (int64_t c = 0; c < size; ++c) squares += room[channels + group * size + c];
    kept[2 * group + 1] = 1.0f / std::sqrt(squares / count + eps);
  }
  find_lines(all, kept, room);
  for (int64_t place = 0; place < all.places; ++place)
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const float found = __builtin_fmaf(widen(x[place * channels + c]), room[c], room[channels + c]);
      narrow(all.bends && found <= 0.0f ? 0.0f : found, y[place * channels + c]);
    }
}

// grad_gain and grad_bias are added to. `room`: (8, channels).
template <typename Number>
INLINED void norm_groups_back(const Groups& all, const Number* x, const float* kept, const Number* slope, Number* grad,
                              float* grad_gain, float* grad_bias, float* room) {
  const int64_t size = all.channels / all.groups, channels = all.channels;
  const float count = static_cast<float>(size * all.places);
  float *const lines = room, *const means = room + 2 * channels, *const shares = room + 3 * channels;
  float *const sums = room + 4 * channels, *const leans = room + 5 * channels;
  float *const levels = room + 6 * channels, *const pulls = room + 7 * channels;
  find_lines(all, kept, lines);
  for (int64_t c = 0; c < channels; ++c) {
    means[c] = kept[c / size * 2];
    shares[c] = kept[c / size * 2 + 1];
    sums[c] = leans[c] = 0.0f;
  }
  for (int64_t place = 0; place < all.places; ++place)
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const float value = widen(x[place * channels + c]);
      const bool cut = all.bends && __builtin_fmaf(value, lines[c], lines[channels + c]) <= 0.0f;
      const float given = cut ? 0.0f : widen(slope[place * channels + c]);
      sums[c] += given;
      leans[c] = __builtin_fmaf(given, (value - means[c]) * shares[c], leans[c]);
    }
  for (int64_t group = 0; group < all.groups; ++group) {
    float level = 0.0f, lean = 0.0f;
    for (int64_t c = group * size; c < (group + 1) * size; ++c) {
      level = __builtin_fmaf(sums[c], all.gain[c], level);
      lean = __builtin_fmaf(leans[c], all.gain[c], lean);
    }
    for (int64_t c = group * size; c < (group + 1) * size; ++c) {
      grad_gain[c] += leans[c];
      grad_bias[c] += sums[c];
      levels[c] = level / count;
      pulls[c] = lean / count;
    }
  }
  for (int64_t place = 0; place < all.places; ++place)
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const float value = widen(x[place * channels + c]), scaled = (value - means[c]) * shares[c];
      const bool cut = all.bends && __builtin_fmaf(value, lines[c], lines[channels + c]) <= 0.0f;
      const float given = cut ? 0.0f : widen(slope[place * channels + c]);
      narrow(shares[c] * (given * all.gain[c] - levels[c] - scaled * pulls[c]), grad[place * channels + c]);
    }
}

#define IN_BOTH_SIZES(name, takes, gives)              \
  template <typename Number>                           \
  SCAN512 void name##_avx512 takes { name gives; }     \
  template <typename Number>                           \
  AVX2 void name##_avx2 takes { name gives; }
IN_BOTH_SIZES(norm_groups, (const Groups& all, float eps, const Number* x, Number* y, float* kept, float* room),
              (all, eps, x, y, kept, room))
IN_BOTH_SIZES(norm_groups_back,
              (const Groups& all, const Number* x, const float* kept, const Number* slope, Number* grad,
               float* grad_gain, float* grad_bias, float* room),
              (all, x, kept, slope, grad, grad_gain, grad_bias, room))

template <typename Number>
void norm_maps(const Groups& all, int64_t rows, float eps, const Number* x, Number* y, float* kept, int level) {
  const int64_t whole = all.places * all.channels;
#pragma omp parallel if (shares(8 * rows * whole))
  {
    std::vector<float> room(2 * all.channels);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row)
      (level == WITH_VNNI ? norm_groups_avx512<Number> : norm_groups_avx2<Number>)(
          all, eps, x + row * whole, y + row * whole, kept + row * 2 * all.groups, room.data());
  }
}

template <typename Number>
void norm_maps_back(const Groups& all, int64_t rows, int64_t parts, const Number* x, const float* kept,
                    const Number* slope, Number* grad, float* grads, int level) {
  const int64_t whole = all.places * all.channels;
#pragma omp parallel if (shares(8 * rows * whole))
  {
    std::vector<float> room(8 * all.channels);
#pragma omp for schedule(static)
    for (int64_t part = 0; part < parts; ++part) {
      float* const to = grads + part * 2 * all.channels;
      for (int64_t row = begin_tile(rows, parts, part); row < begin_tile(rows, parts, part + 1); ++row)
        (level == WITH_VNNI ? norm_groups_back_avx512<Number> : norm_groups_back_avx2<Number>)(
            all, x + row * whole, kept + row * 2 * all.groups, slope + row * whole, grad + row * whole, to,
            to + all.channels, room.data());
    }
  }
}

// ---- additive scores: Σ_h v_h tanh(q_h + k_h) of each query and each key of one row
//
// The tanh of each pair is made where it is used, forward and back: a table of (queries, keys, hidden) is never written.

struct Pairs {
  int64_t queries, keys, hidden;
};

template <typename Number>
INLINED void add_scores(const Pairs& all, const Number* query, const Number* key, const float* v, float* scores) {
  for (int64_t i = 0; i < all.queries; ++i)
    for (int64_t k = 0; k < all.keys; ++k) {
      const Number *const asks = query + i * all.hidden, *const answers = key + k * all.hidden;
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (int64_t h = 0; h < all.hidden; ++h)
        sum = __builtin_fmaf(v[h], hyperbolic_tangent(widen(asks[h]) + widen(answers[h])), sum);
      scores[i * all.keys + k] = sum;
    }
}

// grad_query and grad_key: zeros at first; grad_v is added to.
template <typename Number>
INLINED void add_scores_back(const Pairs& all, const Number* query, const Number* key, const float* v,
                             const float* slope, float* grad_query, float* grad_key, float* grad_v) {
  for (int64_t i = 0; i < all.queries; ++i)
    for (int64_t k = 0; k < all.keys; ++k) {
      const Number *const asks = query + i * all.hidden, *const answers = key + k * all.hidden;
      float *const to_query = grad_query + i * all.hidden, *const to_key = grad_key + k * all.hidden;
      const float given = slope[i * all.keys + k];
#pragma omp simd
      for (int64_t h = 0; h < all.hidden; ++h) {
        const float bent = hyperbolic_tangent(widen(asks[h]) + widen(answers[h]));
        const float back = given * v[h] * (1.0f - bent * bent);
        to_query[h] += back;
        to_key[h] += back;
        grad_v[h] = __builtin_fmaf(given, bent, grad_v[h]);
      }
    }
}

IN_BOTH_SIZES(add_scores, (const Pairs& all, const Number* query, const Number* key, const float* v, float* scores),
              (all, query, key, v, scores))
IN_BOTH_SIZES(add_scores_back,
              (const Pairs& all, const Number* query, const Number* key, const float* v, const float* slope,
               float* grad_query, float* grad_key, float* grad_v),
              (all, query, key, v, slope, grad_query, grad_key, grad_v))

template <typename Number>
void score_pairs(const Pairs& all, int64_t rows, const Number* query, const Number* key, const float* v, float* scores,
                 int level) {
  const int64_t asks = all.queries * all.hidden, answers = all.keys * all.hidden;
#pragma omp parallel for schedule(static) if (shares(8 * rows * asks * all.keys))
  for (int64_t row = 0; row < rows; ++row)
    (level == WITH_VNNI ? add_scores_avx512<Number> : add_scores_avx2<Number>)(
        all, query + row * asks, key + row * answers, v, scores + row * all.queries * all.keys);
}

template <typename Number>
void score_pairs_back(const Pairs& all, int64_t rows, int64_t parts, const Number* query, const Number* key,
                      const float* v, const float* slope, float* grad_query, float* grad_key, float* grad_v,
                      int level) {
  const int64_t asks = all.queries * all.hidden, answers = all.keys * all.hidden;
#pragma omp parallel for schedule(static) if (shares(8 * rows * asks * all.keys))
  for (int64_t part = 0; part < parts; ++part)
    for (int64_t row = begin_tile(rows, parts, part); row < begin_tile(rows, parts, part + 1); ++row)
      (level == WITH_VNNI ? add_scores_back_avx512<Number> : add_scores_back_avx2<Number>)(
          all, query + row * asks, key + row * answers, v, slope + row * all.queries * all.keys,
          grad_query + row * asks, grad_key + row * answers, grad_v + part * all.hidden);
}

// ---- one step of an LSTM, past its products: c = σ(f) c' + σ(i) tanh(g), h = σ(o) tanh(c)

INLINED float logistic(float x) { return 1.0f / (1.0f + exponential(-x)); }

// `given`: (rows, 4, size), what input, forgetting, new and output gate are told; before, hidden, cell: (rows, size).
INLINED void pass_gates(const float* given, const float* before, int64_t rows, int64_t size, float* hidden, float* cell) {
  for (int64_t row = 0; row < rows; ++row, given += 4 * size, before += size, hidden += size, cell += size)
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      const float kept = logistic(given[size + i]) * before[i];
      const float now = __builtin_fmaf(logistic(given[i]), hyperbolic_tangent(given[2 * size + i]), kept);
      cell[i] = now;
      hidden[i] = logistic(given[3 * size + i]) * hyperbolic_tangent(now);
    }
}

// From the gradients of hidden and cell to those of all that was given.
INLINED void pass_gates_back(const float* given, const float* before, const float* cell, const float* to_hidden,
                             const float* to_cell, int64_t rows, int64_t size, float* grad_given, float* grad_before) {
  for (int64_t at = 0; at < rows * size; at += size, given += 4 * size, grad_given += 4 * size)
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      const float enter = logistic(given[i]), forget = logistic(given[size + i]);
      const float fresh = hyperbolic_tangent(given[2 * size + i]), leave = logistic(given[3 * size + i]);
      const float told = hyperbolic_tangent(cell[at + i]);
      const float back = to_cell[at + i] + to_hidden[at + i] * leave * (1.0f - told * told);
      grad_given[i] = back * fresh * enter * (1.0f - enter);
      grad_given[size + i] = back * before[at + i] * forget * (1.0f - forget);
      grad_given[2 * size + i] = back * enter * (1.0f - fresh * fresh);
      grad_given[3 * size + i] = to_hidden[at + i] * told * leave * (1.0f - leave);
      grad_before[at + i] = back * forget;
    }
}

IN_BOTH(pass_gates,
        (const float* given, const float* before, int64_t rows, int64_t size, float* hidden, float* cell),
        (given, before, rows, size, hidden, cell))
IN_BOTH(pass_gates_back,
        (const float* given, const float* before, const float* cell, const float* to_hidden, const float* to_cell,
         int64_t rows, int64_t size, float* grad_given, float* grad_before),
        (given, before, cell, to_hidden, to_cell, rows, size, grad_given, grad_before))

// ---- the best of each row: a short list is kept, and what isn't above the last of it is passed over

bool is_above(float one, float other) { return one > other || (std::isnan(one) && !std::isnan(other)); }

// The largest numbers so far, largest first; equal ones in the order in which they came.
struct Best {
  float* values;
  int64_t* places;
  int64_t room, held;
  const int64_t* barred;
  int64_t bars;

  float least() const { return values[room - 1]; }

  void offer(float value, int64_t place) {
    if (held == room && !is_above(value, least())) return;
    for (int64_t bar = 0; bar < bars; ++bar)
      if (barred[bar] == place) return;
    if (held < room) ++held;
    int64_t at = held - 1;
    for (; at && is_above(value, values[at - 1]); --at) {
      values[at] = values[at - 1];
      places[at] = places[at - 1];
    }
    values[at] = value;
    places[at] = place;
  }
};

AVX512 void find_avx512(const float* x, int64_t count, Best& best) {
  int64_t i = 0;
  for (; i < count && best.held < best.room; ++i) best.offer(x[i], i);
  for (; i < count; i += 16) {
    const __mmask16 there = count - i >= 16 ? 0xffff : (1u << (count - i)) - 1;
    const __m512 v = _mm512_maskz_loadu_ps(there, x + i);
    // not less or equal: what is no number counts as above all
    unsigned above = _mm512_mask_cmp_ps_mask(there, v, _mm512_set1_ps(best.least()), _CMP_NLE_UQ);
    for (; above; above &= above - 1) best.offer(x[i + __builtin_ctz(above)], i + __builtin_ctz(above));
  }
}

AVX2 void find_avx2(const float* x, int64_t count, Best& best) {
  int64_t i = 0;
  for (; i < count && best.held < best.room; ++i) best.offer(x[i], i);
  for (; i + 8 <= count; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    unsigned above = _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_set1_ps(best.least()), _CMP_NLE_UQ));
    for (; above; above &= above - 1) best.offer(x[i + __builtin_ctz(above)], i + __builtin_ctz(above));
  }
  for (; i < count; ++i) best.offer(x[i], i);
}

}  // namespace

extern "C" {

// 2: AVX-512 with VNNI; 1: AVX2; 0: neither, and nothing else here may be called.
int regard_level() { return find_level(); }

// Whether one thread does all from now on.
void regard_crowd(int alone) { crowded = alone != 0; }

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
  static thread_local Rounded rounded;
  round_rows(x, rows, inputs, levels, level, rounded);
  multiply_rounded(rounded, rows, {packed, sums, scale, bias}, outputs, levels, y, level);
}

// Whether rows are rounded to bf16 before weights of bf16 multiply them, with the instructions of a level.
int regard_rounds_brains(int level) { return rounds_brains(level); }

// The numbers that packed weights of bf16 are.
int64_t regard_packed_brains(int64_t outputs, int64_t inputs) {
  return round_up(outputs, PANEL) * round_up(inputs, PAIR);
}

// Lay out weights of bf16, (outputs, inputs), as a level reads them.
void regard_pack_brains(const uint16_t* weights, int64_t outputs, int64_t inputs, uint16_t* packed, int level) {
  const int64_t deep = round_up(inputs, PAIR);
  const bool pairs = rounds_brains(level);
  std::memset(packed, 0, regard_packed_brains(outputs, inputs) * sizeof(uint16_t));
  for (int64_t n = 0; n < outputs; ++n) {
    const int64_t o = n % PANEL, spread = o / (2 * SIDE) * 2 * SIDE + o % SIDE * 2 + o / SIDE % 2;
    uint16_t* panel = packed + (n - o) * deep + (pairs ? o * PAIR : spread);
    for (int64_t k = 0; k < inputs; ++k)
      panel[pairs ? k / PAIR * PANEL * PAIR + k % PAIR : k * PANEL] = weights[n * inputs + k];
  }
}

// y = x wᵀ + bias with weights of bf16, packed for this level; sums are in single precision: (rows, outputs).
void regard_multiply_brains(const float* x, int64_t rows, int64_t inputs, const uint16_t* packed, const float* bias,
                            int64_t outputs, float* y, int level) {
  static thread_local Brains brains;
  if (rounds_brains(level)) round_rows(x, rows, inputs, brains);
  multiply_brains(x, brains, rows, inputs, packed, bias, outputs, y, level);
}

// Lay out weights of half precision, (outputs, inputs), as a level reads them: in panels of [inputs][64], or of
// [4][inputs][16].
void regard_pack_halves(const uint16_t* weights, int64_t outputs, int64_t inputs, uint16_t* packed, int level) {
  const int64_t wide = level == WITH_VNNI ? PANEL : SLIM;
  std::memset(packed, 0, round_up(outputs, PANEL) * inputs * sizeof(uint16_t));
  for (int64_t n = 0; n < outputs; ++n)
    for (int64_t k = 0; k < inputs; ++k)
      packed[(n / wide * inputs + k) * wide + n % wide] = weights[n * inputs + k];
}

// y = x wᵀ + bias with weights of half precision, packed for this level; the rest is in single: (rows, outputs).
void regard_multiply_halves(const float* x, int64_t rows, int64_t inputs, const uint16_t* packed, const float* bias,
                            int64_t outputs, float* y, int level) {
  multiply_halves(x, rows, inputs, reinterpret_cast<const Half*>(packed), bias, outputs, y, level);
}

// y = x wᵀ + bias in single precision: x (rows, inputs), w (outputs, inputs).
void regard_multiply_few(const float* x, int64_t rows, int64_t inputs, const float* w, const float* bias,
                         int64_t outputs, float* y, int level) {
  multiply_few(x, rows, inputs, w, bias, outputs, y, level);
}

// y = x w + bias, or y += x w, in single precision, for many rows. `steps`: from one row and one column to the next, of x,
// (rows, inputs), and of w, (inputs, outputs), and from one row to the next of y. For level 2 alone.
void regard_multiply_many(const float* x, const float* w, const float* bias, int adds, int64_t rows, int64_t inputs,
                          int64_t outputs, float* y, const int64_t* steps) {
  multiply_many({x, steps[0], steps[1]}, {w, steps[2], steps[3]}, bias, adds, rows, inputs, outputs, y, steps[4]);
}

// The way back of y = x wᵀ + bias, x (rows, inputs) and w (outputs, inputs): what is wanted of the three gradients.
// `steps`: from one row and one column to the next, of x, w and `slope`, (rows, outputs); `adds`: grad_x is added to.
// For level 2 alone.
void regard_multiply_back(const float* x, const float* w, const float* slope, int64_t rows, int64_t inputs,
                          int64_t outputs, float* grad_x, float* grad_w, float* grad_bias, const int64_t* steps,
                          int adds) {
  const Matrix from{x, steps[0], steps[1]}, by{w, steps[2], steps[3]};
  const Matrix down{slope, steps[4], steps[5]}, across{slope, steps[5], steps[4]};
  if (grad_x) multiply_many(down, by, nullptr, adds, rows, outputs, inputs, grad_x, inputs);
  if (grad_w) multiply_many(across, from, nullptr, false, outputs, rows, inputs, grad_w, inputs);
  if (grad_bias) add_rows(down, rows, outputs, grad_bias);
}

// What a few queries see. `sizes`: rows, heads, groups of heads that share keys, queries, keys, numbers of a head (in
// whole registers: sixteen, or eight with level 1). `steps`: from one row, head and position to the next, of queries,
// keys and values, from one row, query and key to the next of `allowed`, and from one row to the next of `moved`.
void regard_look(const float* query, const float* key, const float* value, const bool* allowed, const int64_t* moved,
                 float* out, const int64_t* sizes, const int64_t* steps, float scale, int level) {
  look_at(name_heads(query, key, value, allowed, moved, out, sizes, steps, scale), level);
}

// What whole sequences see of each other, or of a memory; steps as above, without `moved`, and sizes in whole registers of
// sixteen. `logs`: (rows, heads, queries), for the way back. For level 2 alone.
void regard_attend(const float* query, const float* key, const float* value, const bool* allowed, float* out,
                   float* logs, const int64_t* sizes, const int64_t* steps, float scale, int causal) {
  const Heads all = name_heads(query, key, value, allowed, nullptr, out, sizes, steps, scale);
  const int64_t work = all.rows * all.heads, room = (all.size + ASKING) * round_up(all.keys, 16);
#pragma omp parallel if (shares(work * all.queries * all.keys * all.size))
  {
    static thread_local std::vector<float> near;
    if (static_cast<int64_t>(near.size()) < room) near.resize(room);
#pragma omp for schedule(static)
    for (int64_t each = 0; each < work; ++each)
      attend_avx512(all, causal, each / all.heads, each % all.heads, logs + each * all.queries, near.data());
  }
}

// The way back: `slope` like queries, with steps of its own behind the others. grad_key, grad_value: zeros at first.
void regard_attend_back(const float* query, const float* key, const float* value, const bool* allowed, const float* out,
                        const float* logs, const float* slope, float* grad_query, float* grad_key, float* grad_value,
                        const int64_t* sizes, const int64_t* steps, float scale, int causal) {
  const Heads all = name_heads(query, key, value, allowed, nullptr, const_cast<float*>(out), sizes, steps, scale);
  const Slopes to{slope, steps[13], steps[14], steps[15], grad_query, grad_key, grad_value};
  const int64_t work = all.rows * all.groups, room = 2 * (all.size + ASKING) * round_up(all.keys, 16);
#pragma omp parallel if (shares(all.rows * all.heads * all.queries * all.keys * all.size))
  {
    static thread_local std::vector<float> near;
    if (static_cast<int64_t>(near.size()) < room) near.resize(room);
#pragma omp for schedule(static)
    for (int64_t each = 0; each < work; ++each)
      attend_back_avx512(all, causal, each / all.groups, each % all.groups, logs, to, near.data());
  }
}

// y = f(x), or slope · f'(x) where a slope is given; `what`: which activation.
void regard_bend(const float* x, const float* slope, int64_t count, int64_t what, float* y, int level) {
  const int64_t piece = 4096, pieces = (count + piece - 1) / piece;
#pragma omp parallel for schedule(static) if (shares(32 * count))
  for (int64_t each = 0; each < pieces; ++each) {
    const int64_t first = each * piece, some = count - first < piece ? count - first : piece;
    (level == WITH_VNNI ? bend_avx512 : bend_avx2)(x + first, slope ? slope + first : nullptr, some, what, y + first);
  }
}

// y = f(x), and f'(x) in the place of x.
void regard_replace(float* x, int64_t count, int64_t what, float* y, int level) {
  const int64_t piece = 4096, pieces = (count + piece - 1) / piece;
#pragma omp parallel for schedule(static) if (shares(32 * count))
  for (int64_t each = 0; each < pieces; ++each) {
    const int64_t first = each * piece, some = count - first < piece ? count - first : piece;
    (level == WITH_VNNI ? replace_avx512 : replace_avx2)(x + first, some, what, y + first);
  }
}

// Play a step for some rows, or a whole sequence whose positions all see each other. `offsets`: where each register begins,
// in numbers of one row; the first holds what is read, unless `tokens` are fetched. `states`: what each look, in order,
// looks at. Whether all tokens are in the table; nothing is done for others.
int regard_play(const Call* calls, int64_t count, const Remembered* states, const Given* given, int64_t more,
                const int64_t* offsets, const int64_t* tokens, float* registers, int64_t rows, int level) {
  static thread_local Rounded rounded;
  static thread_local Brains brains;
  for (const Given* each = given; each < given + more; ++each)
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(registers + offsets[each->to] * rows + row * each->width,
                  each->numbers + row / each->time * each->row_step + row % each->time * each->time_step,
                  each->width * sizeof(float));
  int64_t held = -1;  // the register whose rows are rounded, of which a model has but one kind
  for (const Call* call = calls; call < calls + count; ++call) {
    const float* const from = registers + offsets[call->from] * rows;
    float* const to = registers + offsets[call->to] * rows;
    switch (call->kind) {
      case FETCH:
        for (int64_t row = 0; row < rows; ++row)
          if (tokens[row] < 0 || tokens[row] >= call->outputs) return false;
        share_out(rows, rows * call->inputs * 16, [&](int64_t row) {
          (call->what == HALF ? fetch_half : level == WITH_VNNI ? fetch_avx512 : fetch_avx2)(
              *call, tokens[row], to + row * call->inputs);
        });
        break;
      case SINGLE:
        multiply_few(from, rows, call->inputs, static_cast<const float*>(call->weight), call->bias, call->outputs, to,
                     level);
        break;
      case BYTES: {
        const int levels = static_cast<int>(call->what);
        if (held != call->from) round_rows(from, rows, call->inputs, levels, level, rounded);
        held = call->from;
        multiply_rounded(rounded, rows,
                         {static_cast<const int8_t*>(call->weight), static_cast<const int32_t*>(call->sums),
                          call->scale, call->bias},
                         call->outputs, levels, to, level);
        break;
      }
      case BRAINS:
        if (held != call->from && rounds_brains(level)) round_rows(from, rows, call->inputs, brains);
        held = call->from;
        multiply_brains(from, brains, rows, call->inputs, static_cast<const uint16_t*>(call->weight), call->bias,
                        call->outputs, to, level);
        break;
      case HALVES:
        multiply_halves(from, rows, call->inputs, static_cast<const Half*>(call->weight), call->bias, call->outputs, to,
                        level);
        break;
      case LOOK:
        remember(*call, *states, registers + offsets[call->key] * rows, registers + offsets[call->value] * rows, rows);
        look_back(*call, *states++, from, to, rows, level);
        break;
      case RECALL:
        look_back(*call, *states++, from, to, rows, level);
        break;
      case AROUND:
        look_around(*call, *states++, from, registers + offsets[call->key] * rows,
                    registers + offsets[call->value] * rows, to, rows, level);
        break;
      default:
        share_out(rows, rows * call->inputs * 16, [&](int64_t row) {
          (level == WITH_VNNI ? work_avx512 : work_avx2)(
              *call, from + row * (call->kind == TURN ? call->what : call->inputs), to + row * call->inputs);
        });
    }
    if (held == call->to) held = -1;
  }
  return true;
}

// log Σ e^x of each row; `step`: from one row to the next.
void regard_totals(const float* x, int64_t rows, int64_t words, int64_t step, float* out, int level) {
#pragma omp parallel for schedule(static) if (shares(rows * words * 8))
  for (int64_t row = 0; row < rows; ++row)
    out[row] = (level == WITH_VNNI ? total_avx512 : total_avx2)(x + row * step, words);
}

// Mamba's selective scan. `sizes`: rows, time, inner (in whole blocks of sixteen), states, parts of the channels that run
// side by side, and the steps of B and C from one row and one position to the next. `state`, (rows, states, inner), is
// the first and becomes the last. `borders`, (rows, spans of 64, states, inner), may be none.
void regard_scan(const float* u, const float* delta, const float* B, const float* C, const float* A, float* y,
                 float* state, float* borders, const int64_t* sizes, int level) {
  const int64_t rows = sizes[0], time = sizes[1], inner = sizes[2], states = sizes[3], parts = sizes[4];
  const int64_t kept = (time + SPAN - 1) / SPAN * states * inner;
#pragma omp parallel for schedule(static) if (shares(rows * time * inner * states))
  for (int64_t work = 0; work < rows * parts; ++work) {
    const int64_t row = work / parts, part = work % parts;
    const Sequence all{time, inner, states, u + row * time * inner, delta + row * time * inner,
                       B + row * sizes[5], C + row * sizes[7], sizes[6], sizes[8], A};
    (level == WITH_VNNI ? scan_avx512 : scan_avx2)(
        all, begin_part(inner, parts, part), begin_part(inner, parts, part + 1), y + row * time * inner,
        state + row * states * inner, borders ? borders + row * kept : nullptr);
  }
}

// The way back. `carried`, (rows, states, inner), is the gradient of the last state and becomes that of the first.
// grad_B, grad_C: (parts, rows, time, states), to be added up; grad_A: (rows, states, inner), likewise, zeros at first.
void regard_scan_back(const float* u, const float* delta, const float* B, const float* C, const float* A,
                      const float* borders, const float* grad_y, float* grad_u, float* grad_delta, float* grad_B,
                      float* grad_C, float* grad_A, float* carried, const int64_t* sizes, int level) {
  const int64_t rows = sizes[0], time = sizes[1], inner = sizes[2], states = sizes[3], parts = sizes[4];
  const int64_t kept = (time + SPAN - 1) / SPAN * states * inner;
#pragma omp parallel for schedule(static) if (shares(rows * time * inner * states))
  for (int64_t work = 0; work < rows * parts; ++work) {
    const int64_t row = work / parts, part = work % parts, at = row * time * inner;
    const Sequence all{time, inner, states, u + at, delta + at, B + row * sizes[5], C + row * sizes[7],
                       sizes[6], sizes[8], A};
    const Gradients grad{grad_y + at, grad_u + at, grad_delta + at,
                         grad_B + (part * rows + row) * time * states, grad_C + (part * rows + row) * time * states,
                         grad_A + row * states * inner, carried + row * states * inner, borders + row * kept};
    (level == WITH_VNNI ? return_avx512 : return_avx2)(all, grad, begin_part(inner, parts, part),
                                                      begin_part(inner, parts, part + 1));
  }
}

// silu(Σ_k w_k x_(t+k) + bias), channel by channel. `sizes`: rows, time, inner, taps (eight at most). x, y: (rows, time,
// inner); tail: (rows, taps - 1, inner), what came before; weight: (taps, inner).
void regard_convolve(const float* x, const float* tail, const float* weight, const float* bias, float* y, const int64_t* sizes, int level) {
  const int64_t rows = sizes[0], time = sizes[1], inner = sizes[2], taps = sizes[3];
  const int64_t pieces = (inner + ABREAST - 1) / ABREAST;
#pragma omp parallel for schedule(static) if (shares(ALONE + 1))
  for (int64_t each = 0; each < rows * pieces; ++each) {
    const int64_t row = each / pieces, first = each % pieces * ABREAST;
    const Taps all{time, inner, taps, x + row * time * inner, tail + row * (taps - 1) * inner, weight, bias};
    (level == WITH_VNNI ? convolve_channels_avx512 : convolve_channels_avx2)(
        all, first, inner - first < ABREAST ? inner - first : ABREAST, y + row * time * inner);
  }
}

// The way back. grad_x like x, grad_tail like tail; grad_weight: (rows, taps + 1, inner), to be added up, the bias's last.
void regard_convolve_back(const float* x, const float* tail, const float* weight, const float* bias, const float* slope,
                          float* grad_x, float* grad_tail, float* grad_weight, const int64_t* sizes, int level) {
  const int64_t rows = sizes[0], time = sizes[1], inner = sizes[2], taps = sizes[3];
  const int64_t pieces = (inner + ABREAST - 1) / ABREAST, wide = time * inner, before = (taps - 1) * inner;
#pragma omp parallel for schedule(static) if (shares(ALONE + 1))
  for (int64_t each = 0; each < rows * pieces; ++each) {
    const int64_t row = each / pieces, first = each % pieces * ABREAST;
    const Taps all{time, inner, taps, x + row * wide, tail + row * before, weight, bias};
    (level == WITH_VNNI ? convolve_channels_back_avx512 : convolve_channels_back_avx2)(
        all, slope + row * wide, first, inner - first < ABREAST ? inner - first : ABREAST, grad_x + row * wide,
        grad_tail + row * before, grad_weight + row * (taps + 1) * inner);
  }
}

// (y + skip u) silu(gate): (rows, inner); `step`: from one row of gates to the next.
void regard_gate(const float* y, const float* u, const float* skip, const float* gate, int64_t step, int64_t rows,
                 int64_t inner, float* out, int level) {
  const int64_t some = 16, pieces = (rows + some - 1) / some;
#pragma omp parallel for schedule(static) if (shares(ALONE + 1))
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t first = piece * some, count = rows - first < some ? rows - first : some, at = first * inner;
    (level == WITH_VNNI ? pass_gate_avx512 : pass_gate_avx2)(y + at, u + at, skip, gate + first * step, step, count,
                                                             inner, out + at);
  }
}

// The way back; grad_skip: (parts, inner), to be added up, zeros at first.
void regard_gate_back(const float* y, const float* u, const float* skip, const float* gate, int64_t step,
                      const float* slope, int64_t rows, int64_t inner, int64_t parts, float* grad_y, float* grad_u,
                      float* grad_gate, float* grad_skip, int level) {
#pragma omp parallel for schedule(static) if (shares(ALONE + 1))
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = begin_tile(rows, parts, part), count = begin_tile(rows, parts, part + 1) - first;
    const int64_t at = first * inner;
    (level == WITH_VNNI ? pass_gate_back_avx512 : pass_gate_back_avx2)(
        y + at, u + at, skip, gate + first * step, step, slope + at, count, inner, grad_y + at, grad_u + at,
        grad_gate + at, grad_skip + part * inner);
  }
}

// Each row less its mean (or not), divided by its deviation, times a gain, plus a bias (or none). kept: (rows, 2).
void regard_norm(const float* x, const float* gain, const float* bias, int64_t rows, int64_t width, float eps,
                 int centres, float* y, float* kept, int level) {
  const int64_t some = 16, pieces = (rows + some - 1) / some;
#pragma omp parallel for schedule(static) if (shares(8 * rows * width))
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t first = piece * some, count = rows - first < some ? rows - first : some, at = first * width;
    (level == WITH_VNNI ? norm_rows_avx512 : norm_rows_avx2)(x + at, gain, bias, count, width, eps, centres, y + at,
                                                             kept + 2 * first);
  }
}

// The way back; grads: (2, width), those of gain and bias. They are added up part by part, whoever computes these.
void regard_norm_back(const float* x, const float* gain, const float* slope, const float* kept, int64_t rows,
                      int64_t width, int centres, float* grad_x, float* grads, int level) {
  constexpr int64_t parts = 16;
  static thread_local std::vector<float> room;
  room.assign(parts * 2 * width, 0.0f);
  float* const each = room.data();
#pragma omp parallel for schedule(static) if (shares(8 * rows * width))
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = begin_tile(rows, parts, part), count = begin_tile(rows, parts, part + 1) - first;
    const int64_t at = first * width;
    float* const to = each + part * 2 * width;
    (level == WITH_VNNI ? norm_rows_back_avx512 : norm_rows_back_avx2)(
        x + at, gain, slope + at, kept + 2 * first, count, width, centres, grad_x + at, to, to + width);
  }
  std::memcpy(grads, each, 2 * width * sizeof(float));
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t i = 0; i < 2 * width; ++i) grads[i] += each[part * 2 * width + i];
}

// Maps normalised in groups of channels, which stand side by side. `sizes`: rows, places, channels, groups, whether
// max(0, ·) follows, whether numbers are bf16, and parts of the rows on the way back. kept: (rows, groups, 2).
void regard_norm_maps(const void* x, const float* gain, const float* bias, const int64_t* sizes, float eps, void* y,
                      float* kept, int level) {
  const Groups all{sizes[1], sizes[2], sizes[3], gain, bias, sizes[4] != 0};
  if (sizes[5])
    norm_maps(all, sizes[0], eps, static_cast<const Brain*>(x), static_cast<Brain*>(y), kept, level);
  else
    norm_maps(all, sizes[0], eps, static_cast<const float*>(x), static_cast<float*>(y), kept, level);
}

// The way back. grads: (parts, 2, channels), those of gain and bias, to be added up, zeros at first.
void regard_norm_maps_back(const void* x, const float* gain, const float* bias, const void* slope, const float* kept,
                           const int64_t* sizes, void* grad, float* grads, int level) {
  const Groups all{sizes[1], sizes[2], sizes[3], gain, bias, sizes[4] != 0};
  if (sizes[5])
    norm_maps_back(all, sizes[0], sizes[6], static_cast<const Brain*>(x), kept, static_cast<const Brain*>(slope),
                   static_cast<Brain*>(grad), grads, level);
  else
    norm_maps_back(all, sizes[0], sizes[6], static_cast<const float*>(x), kept, static_cast<const float*>(slope),
                   static_cast<float*>(grad), grads, level);
}

// Σ_h v_h tanh(q_h + k_h). `sizes`: rows, queries, keys, hidden, whether queries and keys are bf16, and parts of the rows
// on the way back. query: (rows, queries, hidden); key: (rows, keys, hidden); scores: (rows, queries, keys).
void regard_score(const void* query, const void* key, const float* v, float* scores, const int64_t* sizes, int level) {
  const Pairs all{sizes[1], sizes[2], sizes[3]};
  if (sizes[4])
    score_pairs(all, sizes[0], static_cast<const Brain*>(query), static_cast<const Brain*>(key), v, scores, level);
  else
    score_pairs(all, sizes[0], static_cast<const float*>(query), static_cast<const float*>(key), v, scores, level);
}

// The way back, in single precision; all gradients are zeros at first. grad_v: (parts, hidden), to be added up.
void regard_score_back(const void* query, const void* key, const float* v, const float* slope, float* grad_query,
                       float* grad_key, float* grad_v, const int64_t* sizes, int level) {
  const Pairs all{sizes[1], sizes[2], sizes[3]};
  if (sizes[4])
    score_pairs_back(all, sizes[0], sizes[5], static_cast<const Brain*>(query), static_cast<const Brain*>(key), v, slope,
                     grad_query, grad_key, grad_v, level);
  else
    score_pairs_back(all, sizes[0], sizes[5], static_cast<const float*>(query), static_cast<const float*>(key), v,
                     slope, grad_query, grad_key, grad_v, level);
}

// One step of an LSTM from what its gates are told, (rows, 4, size); before, hidden, cell: (rows, size).
void regard_gates(const float* given, const float* before, int64_t rows, int64_t size, float* hidden, float* cell,
                  int level) {
  (level == WITH_VNNI ? pass_gates_avx512 : pass_gates_avx2)(given, before, rows, size, hidden, cell);
}

// The way back, from the gradients of hidden and cell.
void regard_gates_back(const float* given, const float* before, const float* cell, const float* to_hidden,
                       const float* to_cell, int64_t rows, int64_t size, float* grad_given, float* grad_before,
                       int level) {
  (level == WITH_VNNI ? pass_gates_back_avx512 : pass_gates_back_avx2)(given, before, cell, to_hidden, to_cell, rows,
                                                                       size, grad_given, grad_before);
}

// What comes to each node along its edges; `sizes`: nodes, width, parts. out: (nodes, width).
void regard_hear(const float* x, const float* kinds, const float* weights, const int64_t* starts,
                 const int64_t* others, const int64_t* ids, const int64_t* sorts, float* out, const int64_t* sizes,
                 int level) {
  const int64_t nodes = sizes[0], width = sizes[1], parts = sizes[2];
  const Edges all{nodes, width, x, kinds, weights, starts, others, ids, sorts};
#pragma omp parallel for schedule(static) if (shares((starts[nodes] + nodes) * width))
  for (int64_t part = 0; part < parts; ++part)
    (level == WITH_VNNI ? hear_avx512 : hear_avx2)(all, begin_tile(nodes, parts, part),
                                                  begin_tile(nodes, parts, part + 1), out);
}

// The way back, with edges in the order of the node where they begin; `sizes`: nodes, width, parts, sorts.
// grad_kinds: (parts, sorts, width), to be added up, zeros at first.
void regard_hear_back(const float* x, const float* kinds, const float* weights, const int64_t* starts,
                      const int64_t* others, const int64_t* ids, const int64_t* sorts, const float* grad,
                      float* grad_x, float* grad_kinds, const int64_t* sizes, int level) {
  const int64_t nodes = sizes[0], width = sizes[1], parts = sizes[2];
  const Edges all{nodes, width, x, kinds, weights, starts, others, ids, sorts};
#pragma omp parallel for schedule(static) if (shares((starts[nodes] + nodes) * width))
  for (int64_t part = 0; part < parts; ++part)
    (level == WITH_VNNI ? tell_avx512 : tell_avx2)(all, begin_tile(nodes, parts, part),
                                                  begin_tile(nodes, parts, part + 1), grad, grad_x,
                                                  kinds ? grad_kinds + part * sizes[3] * width : nullptr);
}

// The best continuations of each group of rows, best first: those with the largest sum + x, or with the largest
// sum + (x - log Σ e^x) if `normal`. Of equal ones the lower row comes first, and within a row the lower place.
// `sizes`: groups, rows of each, words, from one row of x to the next, how many are wanted, how many words are barred,
// and `normal`. values: (2, groups, wanted), the sums and what was added last; numbers: (2, groups, wanted), the rows
// and the words. Where there are fewer, the sum is -inf. Without `sums`, all are 0.
void regard_best(const float* x, const float* sums, const int64_t* barred, float* values, int64_t* numbers,
                 const int64_t* sizes, int level) {
  const int64_t groups = sizes[0], fan = sizes[1], words = sizes[2], step = sizes[3], wanted = sizes[4];
  const int64_t rows = groups * fan;
  std::vector<float> scores(rows * wanted);
  std::vector<int64_t> places(rows * wanted), held(rows);
#pragma omp parallel for schedule(static) if (shares(rows * words * 8))
  for (int64_t row = 0; row < rows; ++row) {
    Best best{scores.data() + row * wanted, places.data() + row * wanted, wanted, 0, barred, sizes[5]};
    (level == WITH_VNNI ? find_avx512 : find_avx2)(x + row * step, words, best);
    held[row] = best.held;
    if (!sizes[6]) continue;
    const float total = (level == WITH_VNNI ? total_avx512 : total_avx2)(x + row * step, words);
    for (int64_t at = 0; at < best.held; ++at) best.values[at] -= total;
  }
  std::vector<int64_t> next(fan);
  for (int64_t group = 0; group < groups; ++group) {
    std::fill(next.begin(), next.end(), 0);
    for (int64_t at = 0; at < wanted; ++at) {
      int64_t chosen = -1;
      float most = -INFINITY, last = -INFINITY;
      for (int64_t one = 0; one < fan; ++one) {
        const int64_t row = group * fan + one;
        if (next[one] == held[row]) continue;
        const float score = scores[row * wanted + next[one]], sum = sums ? sums[row] + score : score;
        if (chosen >= 0 && !is_above(sum, most)) continue;
        chosen = one, most = sum, last = score;
      }
      const int64_t row = group * fan + (chosen < 0 ? 0 : chosen), out = group * wanted + at;
      values[out] = most;
      values[groups * wanted + out] = last;
      numbers[out] = row;
      numbers[groups * wanted + out] = chosen < 0 ? 0 : places[row * wanted + next[chosen]++];
    }
  }
}

// What each row of scores loses, (rows,), and in the place of the scores, (rows, words), their gradient.
void regard_lose(float* z, const int64_t* targets, int64_t rows, int64_t words, float sharp, float even, float* lost,
                 int level) {
#pragma omp parallel for schedule(static) if (shares(16 * rows * words))
  for (int64_t row = 0; row < rows; ++row)
    lost[row] = targets[row] < 0 || targets[row] >= words
                    ? NAN  // a word that there isn't: whoever learns stops
                    : (level == WITH_VNNI ? lose_avx512 : lose_avx2)(z + row * words, words, targets[row], sharp, even);
}

// A step of Adam: weights with their gradients, the running means of these and of their squares, and how many steps each
// has had. `apart`: decay isn't added to the gradient.
void regard_move(int64_t weights, const int64_t* sizes, float* const* weight, float* const* gradient, float* const* mean,
                 float* const* square, float* const* step, double rate, double first, double second, double epsilon,
                 double decay, int apart, int level) {
  std::vector<Pace> paces(weights);
  for (int64_t each = 0; each < weights; ++each) {
    const double count = *step[each] += 1.0f;
    paces[each] = {static_cast<float>(apart ? 1.0 - rate * decay : 1.0), static_cast<float>(apart ? 0.0 : decay),
                   static_cast<float>(1.0 - first), static_cast<float>(1.0 - second),
                   static_cast<float>(rate / (1.0 - std::pow(first, count))),
                   static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(second, count))), static_cast<float>(epsilon)};
  }
  const std::vector<Piece> pieces = cut_pieces(weights, sizes);
  const int64_t count = pieces.size();
#pragma omp parallel for schedule(static) if (shares(16 * count * PIECE))
  for (int64_t at = 0; at < count; ++at) {
    const Piece& piece = pieces[at];
    const int64_t each = piece.weight, from = piece.first;
    (level == WITH_VNNI ? move_piece_avx512 : move_piece_avx2)(weight[each] + from, gradient[each] + from,
                                                               mean[each] + from, square[each] + from, piece.count,
                                                               paces[each]);
  }
}

// The norm of all gradients together; where it is finite and above `most`, they are scaled down to that.
double regard_clip(int64_t weights, const int64_t* sizes, float* const* gradient, double most, int level) {
  const std::vector<Piece> pieces = cut_pieces(weights, sizes);
  const int64_t count = pieces.size();
  std::vector<double> squares(count);
#pragma omp parallel for schedule(static) if (shares(4 * count * PIECE))
  for (int64_t at = 0; at < count; ++at)
    squares[at] = (level == WITH_VNNI ? add_squares_avx512 : add_squares_avx2)(
        gradient[pieces[at].weight] + pieces[at].first, pieces[at].count);
  double total = 0.0;
  for (const double square : squares) total += square;
  const double norm = std::sqrt(total);
  if (!(norm > most) || std::isinf(norm)) return norm;
  const float share = static_cast<float>(most / (norm + 1e-6));
#pragma omp parallel for schedule(static) if (shares(4 * count * PIECE))
  for (int64_t at = 0; at < count; ++at)
    shrink_piece(gradient[pieces[at].weight] + pieces[at].first, pieces[at].count, share);
  return norm;
}

}  // extern "C"
