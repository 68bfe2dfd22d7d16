// What a compiler takes for functions and data of a DLL: it reads their addresses from a table.
__declspec(dllimport) int outside(int);
__declspec(dllimport) extern int outside_data;
int imported(int a) { return outside(a) + outside_data; }
int (*pointer(void))(int) { return outside; }
