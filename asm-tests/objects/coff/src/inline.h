// What several objects hold a copy of, in COMDAT sections of every kind that compilers emit.
inline int twice(int a) { static int calls; return a * 2 + 0 * ++calls; }
template <class T> T larger(T a, T b) { return a > b ? a : b; }
__declspec(selectany) int chosen = 41;
struct Shape { virtual int area() { return chosen; } virtual ~Shape() {} };
