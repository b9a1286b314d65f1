// out[b] = sum of x[b * chunk .. (b + 1) * chunk) for the chunks of n elements: one block a chunk of
// 65536, 256 threads. Warp shuffles, then one warp over the warps' sums. sm_35 and up.

static __device__ float warp_sum(float value)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

extern "C" __global__ void block_reduction(const float *__restrict__ x, float *__restrict__ out,
                                           long long n)
{
    const long long chunk = 65536;
    const long long start = blockIdx.x * chunk;
    const long long end = start + chunk < n ? start + chunk : n;
    float total = 0.0f;
    long long i = start + 4 * threadIdx.x;
    for (; i + 3 < end; i += 4 * blockDim.x) {
        const float4 v = *reinterpret_cast<const float4 *>(x + i);
        total += (v.x + v.y) + (v.z + v.w);
    }
    for (; i < end; ++i)  // at most one thread is here, with the last three elements or fewer
        total += x[i];

    __shared__ float of_warp[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    total = warp_sum(total);
    if (lane == 0)
        of_warp[warp] = total;
    __syncthreads();
    if (warp == 0) {
        total = lane < (blockDim.x + 31) / 32 ? of_warp[lane] : 0.0f;
        total = warp_sum(total);
        if (lane == 0)
            out[blockIdx.x] = total;
    }
}
