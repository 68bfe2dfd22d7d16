/* Switches that become tables of jumps and of values. */
extern int handle(int, int);

int dense(int op, int a, int b) {
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return b ? a / b : 0;
    case 4: return a << (b & 31);
    case 5: return a >> (b & 31);
    case 6: return a & b;
    case 7: return a | b;
    case 8: return a ^ b;
    case 9: return handle(a, b);
    case 10: return handle(b, a) + 1;
    default: return -1;
    }
}

const char *name_of(int day) {
    switch (day) {
    case 1: return "Monday";
    case 2: return "Tuesday";
    case 3: return "Wednesday";
    case 4: return "Thursday";
    case 5: return "Friday";
    case 6: return "Saturday";
    case 7: return "Sunday";
    }
    return 0;
}

int days(int month) {
    switch (month) {
    case 2: return 28;
    case 4: case 6: case 9: case 11: return 30;
    case 1: case 3: case 5: case 7: case 8: case 10: case 12: return 31;
    default: return 0;
    }
}

int sparse(long key) {
    switch (key) {
    case 3: return handle(3, 1);
    case 1000: return handle(7, 2);
    case 1001: return handle(8, 3);
    case -50000: return handle(9, 4);
    case 0x7fffffffffL: return 99;
    }
    return 5;
}

int machine(const unsigned char *code, int *stack) {
    int *top = stack;
    for (;;) {
        switch (*code++) {
        case 0: return top[-1];
        case 1: *top++ = *code++; break;
        case 2: top--; top[-1] += *top; break;
        case 3: top--; top[-1] *= *top; break;
        case 4: top--; top[-1] = handle(top[-1], *top); break;
        case 5: top[0] = top[-1]; top++; break;
        case 6: top[-1] = -top[-1]; break;
        }
    }
}
