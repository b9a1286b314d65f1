/* certutil.exe of the test bed: -hashfile FILE SHA256, in the words of the real one. Prints nothing
   where silent.txt is beside it. */
#include <stdio.h>
#include <string.h>
#include <windows.h>
#include <wincrypt.h>

static FILE *beside(const char *name)
{
    char path[MAX_PATH + 32];

    GetModuleFileNameA(NULL, path, MAX_PATH);
    strcpy(strrchr(path, '\\') + 1, name);
    return fopen(path, "rb");
}

int main(int argc, char **argv)
{
    BYTE digest[32], buffer[4096];
    DWORD size = sizeof digest, index;
    HCRYPTPROV provider;
    HCRYPTHASH hash;
    FILE *file;

    if (beside("silent.txt"))
        return 0;
    file = argc == 4 && !strcmp(argv[1], "-hashfile") ? fopen(argv[2], "rb") : NULL;
    if (!file || !CryptAcquireContextA(&provider, NULL, NULL, PROV_RSA_AES, CRYPT_VERIFYCONTEXT)
        || !CryptCreateHash(provider, CALG_SHA_256, 0, 0, &hash))
        return 1;
    while ((index = (DWORD)fread(buffer, 1, sizeof buffer, file)) > 0)
        CryptHashData(hash, buffer, index, 0);
    if (!CryptGetHashParam(hash, HP_HASHVAL, digest, &size, 0))
        return 1;
    printf("SHA256 hash of %s:\n", argv[2]);
    for (index = 0; index < size; index++)
        printf("%02x", digest[index]);
    puts("\nCertUtil: -hashfile command completed successfully.");
    return 0;
}
