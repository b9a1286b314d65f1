/* whoami.exe of the test bed: `whoami /user /fo csv /nh` of the user with the RID 1001. */
#include <stdio.h>

int main(void)
{
    puts("\"host\\somebody\",\"S-1-5-21-1004336348-1177238915-682003330-1001\"");
    return 0;
}
