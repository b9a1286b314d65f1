/* whoami.exe of the test bed: `whoami /user /fo csv /nh` of the user whose SID is in sid.txt beside
   it. */
#include <stdio.h>
#include <string.h>
#include <windows.h>

int main(void)
{
    char path[MAX_PATH + 16], sid[128] = "";
    FILE *file;

    GetModuleFileNameA(NULL, path, MAX_PATH);
    strcpy(strrchr(path, '\\') + 1, "sid.txt");
    file = fopen(path, "rb");
    if (!file || !fgets(sid, sizeof sid, file))
        return 1;
    printf("\"host\\somebody\",\"%s\"\n", sid);
    return 0;
}
