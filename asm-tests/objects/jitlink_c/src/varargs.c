/* Functions with as many arguments as there are. */
#include <stdarg.h>
#include <stdio.h>

static char line[512];

int total(int count, ...) {
    va_list list;
    int sum = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++)
        sum += va_arg(list, int);
    va_end(list);
    return sum;
}

double mixed(const char *kinds, ...) {
    va_list list, again;
    double sum = 0;
    va_start(list, kinds);
    va_copy(again, list);
    for (; *kinds; kinds++)
        switch (*kinds) {
        case 'i': sum += va_arg(list, int); break;
        case 'l': sum += va_arg(list, long); break;
        case 'd': sum += va_arg(list, double); break;
        case 'p': sum += va_arg(list, char *) != 0; break;
        }
    va_end(list);
    va_end(again);
    return sum;
}

const char *formatted(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    return line;
}

int report(int code) { return total(3, code, 2, 3) + printf("%d %s %f\n", code, formatted("%d", code), mixed("id", 1, 2.0)); }
