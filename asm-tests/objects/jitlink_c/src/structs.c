/* Aggregates: passed and returned by value, copied, in static data with pointers to each other. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct point { double x, y; };
struct node { struct node *next; const char *label; struct point at; int tags[3]; };
struct big { long words[12]; };

extern struct node last;
struct node first = {&last, "first", {1, 2}, {1, 2, 3}};
struct node last = {NULL, "last", {3, 4}, {4, 5, 6}};
static struct node ring[3] = {
    {&ring[1], "a", {0, 0}, {0}},
    {&ring[2], "b", {0, 1}, {1}},
    {&ring[0], "c", {1, 0}, {2}},
};

struct point middle(struct point a, struct point b) {
    struct point m = {(a.x + b.x) / 2, (a.y + b.y) / 2};
    return m;
}

struct big grown(struct big b, int by) {
    for (int i = 0; i < 12; i++)
        b.words[i] += by;
    return b;
}

struct node *prepend(struct node *list, const char *label) {
    struct node *node = malloc(sizeof *node);
    if (!node)
        return list;
    memset(node, 0, sizeof *node);
    node->next = list;
    node->label = label;
    node->at = middle(first.at, ring[node->tags[0]].at);
    return node;
}

int turn(int steps) {
    struct node *node = ring;
    while (steps-- > 0)
        node = node->next;
    return node->tags[0] + node->label[0];
}

void release(struct node *list) {
    while (list) {
        struct node *next = list->next;
        free(list);
        list = next;
    }
}
