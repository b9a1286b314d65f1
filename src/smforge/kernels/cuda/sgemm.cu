// C (M, N) = A (M, K) @ B (K, N), row-major fp32: a 64 x 64 tile a block of 256 threads, 4 x 4
// results a thread, 16 columns of A and rows of B in shared memory at a time. sm_35 and up.

#define TILE 64
#define DEPTH 16
#define EACH 4

extern "C" __global__ void __launch_bounds__(256)
sgemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int M, int N,
      int K)
{
    // One column more than needed: threads that store a column of A then hit different banks.
    __shared__ float tile_a[DEPTH][TILE + 1];
    __shared__ float tile_b[DEPTH][TILE];
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    float sum[EACH][EACH] = {};

    for (int k = 0; k < K; k += DEPTH) {
        for (int i = threadIdx.x; i < TILE * DEPTH; i += 256) {
            const int m = i / DEPTH, ka = i % DEPTH;
            tile_a[ka][m] =
                row + m < M && k + ka < K ? a[(long long)(row + m) * K + k + ka] : 0.0f;
            const int kb = i / TILE, n = i % TILE;
            tile_b[kb][n] =
                k + kb < K && column + n < N ? b[(long long)(k + kb) * N + column + n] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
#pragma unroll
            for (int i = 0; i < EACH; ++i)
#pragma unroll
                for (int j = 0; j < EACH; ++j)
                    sum[i][j] += tile_a[d][ty + 16 * i] * tile_b[d][tx + 16 * j];
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i)
        for (int j = 0; j < EACH; ++j) {
            const int m = row + ty + 16 * i, n = column + tx + 16 * j;
            if (m < M && n < N)
                c[(long long)m * N + n] = sum[i][j];
        }
}
