// out[i] = x[i] * y[i] + x[i] in fp16 for i < n: half2 arithmetic from sm_53 on, through fp32 below
// (sm_35, sm_50 hold halves but cannot compute with them).

#include <cuda_fp16.h>

static __device__ __half2 multiply_add(__half2 x, __half2 y)
{
#if __CUDA_ARCH__ >= 530
    return __hfma2(x, y, x);
#else
    const float2 a = __half22float2(x), b = __half22float2(y);
    return __floats2half2_rn(fmaf(a.x, b.x, a.x), fmaf(a.y, b.y, a.y));
#endif
}

// Two halves that lie in one word.
static __device__ unsigned multiply_add_word(unsigned x, unsigned y)
{
    const __half2 result = multiply_add(reinterpret_cast<const __half2 &>(x),
                                        reinterpret_cast<const __half2 &>(y));
    return reinterpret_cast<const unsigned &>(result);
}

extern "C" __global__ void half_multiply_add(const __half *__restrict__ x,
                                             const __half *__restrict__ y,
                                             __half *__restrict__ out, long long n)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const uint4 *x8 = reinterpret_cast<const uint4 *>(x);
    const uint4 *y8 = reinterpret_cast<const uint4 *>(y);
    uint4 *out8 = reinterpret_cast<uint4 *>(out);
    for (long long i = first; i < n / 8; i += stride) {  // 16 bytes a thread
        const uint4 a = x8[i], b = y8[i];
        out8[i] = make_uint4(multiply_add_word(a.x, b.x), multiply_add_word(a.y, b.y),
                             multiply_add_word(a.z, b.z), multiply_add_word(a.w, b.w));
    }
    for (long long i = n / 8 * 8 + first; i < n; i += stride)
        out[i] = __low2half(multiply_add(__halves2half2(x[i], x[i]), __halves2half2(y[i], y[i])));
}
