/* vswhere.exe of the test bed: prints the file instances.txt beside it. */
#include <stdio.h>
#include <string.h>
#include <windows.h>

int main(void)
{
    char path[MAX_PATH + 16];
    FILE *file;
    int letter;

    GetModuleFileNameA(NULL, path, MAX_PATH);
    strcpy(strrchr(path, '\\') + 1, "instances.txt");
    file = fopen(path, "rb");
    if (!file)
        return 1;
    while ((letter = getc(file)) != EOF)
        putchar(letter);
    return 0;
}
