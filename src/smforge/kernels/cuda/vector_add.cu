// out[i] = x[i] + y[i] for i < n, four elements a thread where n allows. sm_35 and up.

extern "C" __global__ void vector_add(const float *__restrict__ x, const float *__restrict__ y,
                                      float *__restrict__ out, long long n)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    const float4 *y4 = reinterpret_cast<const float4 *>(y);
    float4 *out4 = reinterpret_cast<float4 *>(out);
    for (long long i = first; i < n / 4; i += stride) {
        const float4 a = x4[i], b = y4[i];
        out4[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    for (long long i = n / 4 * 4 + first; i < n; i += stride)
        out[i] = x[i] + y[i];
}
