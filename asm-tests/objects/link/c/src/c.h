/* What the three files share. */
typedef long (*operation)(long, long);
extern long buffer[8];
extern long weak_value;
extern operation operations[4];
extern const char *const names[4];
long add(long, long);
long mix(long, long);
long which(void);
long pick(long);
long length(const char *);
long outside(long);
extern long missing(long) __attribute__((weak));
extern long inner(long) __attribute__((visibility("hidden")));
