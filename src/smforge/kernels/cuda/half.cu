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

extern "C" __global__ void half_multiply_add(const __half *__restrict__ x,
                                             const __half *__restrict__ y,
                                             __half *__restrict__ out, long long n)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const __half2 *x2 = reinterpret_cast<const __half2 *>(x);
    const __half2 *y2 = reinterpret_cast<const __half2 *>(y);
    __half2 *out2 = reinterpret_cast<__half2 *>(out);
    for (long long i = first; i < n / 2; i += stride)
        out2[i] = multiply_add(x2[i], y2[i]);
    if (n % 2 == 1 && first == 0)
        out[n - 1] = __low2half(multiply_add(__halves2half2(x[n - 1], x[n - 1]),
                                             __halves2half2(y[n - 1], y[n - 1])));
}
