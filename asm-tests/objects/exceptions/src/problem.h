// What is thrown, and something that has to be destroyed on the way.
struct Problem { int code; };
extern "C" int destroyed;
struct Guard {
    int number;
    explicit Guard(int number) : number(number) {}
    ~Guard() { destroyed += number; }
};
