// A whole program around the other kernels: nvcc's front end, the host compiler and the CUDA
// runtime. With a GPU it runs one of them; without a driver it says so and ends well.

#include <cstdio>

#include "block_reduction.cu"
#include "half.cu"
#include "sgemm.cu"
#include "vector_add.cu"

static int run_vector_add()
{
    const int n = 1003, pitch = 1004;  // the kernel reads 16 bytes at a time
    static float x[n], y[n], out[n];  // no <vector>: nvcc would parse it once an architecture
    for (int i = 0; i < n; ++i) {
        x[i] = 1.5f;
        y[i] = 2.0f;
    }
    float *device = nullptr;
    if (cudaMalloc(&device, 3 * pitch * sizeof(float)) != cudaSuccess)
        return 1;
    float *dx = device, *dy = device + pitch, *dout = device + 2 * pitch;
    cudaMemcpy(dx, x, n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y, n * sizeof(float), cudaMemcpyHostToDevice);
    vector_add<<<4, 256>>>(dx, dy, dout, n);
    cudaMemcpy(out, dout, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(device);
    for (float value : out)
        if (value != 3.5f)
            return 1;
    return cudaGetLastError() != cudaSuccess;
}

int main()
{
    const void *kernels[] = {(const void *)vector_add, (const void *)block_reduction,
                             (const void *)sgemm, (const void *)half_multiply_add};
    int devices = 0;
    const cudaError_t found = cudaGetDeviceCount(&devices);
    std::printf("%d kernels, %d devices, %s\n", (int)(sizeof kernels / sizeof *kernels), devices,
                cudaGetErrorName(found));
    return devices > 0 ? run_vector_add() : 0;
}
