/* Bandwidth as STREAM counts it, independent of any library: ./stream BYTES_PER_ARRAY THREADS PASSES BLOCKS
 * Walks three arrays block by block, pass after pass; prints the fastest block of copy, read and triad in byte/s. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double *a, *b, *c;
static volatile double sink;
static size_t n, start; /* elements of a block, and where it begins */
static int threads, pattern;
static pthread_barrier_t barrier;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void part(int index) {
  size_t from = start + n / threads * index, to = from + n / threads, i;
  double sum[8] = {0};
  if (pattern == 0)
    memcpy(c + from, a + from, (to - from) * sizeof *a);
  else if (pattern == 1) {
    for (i = from; i + 8 <= to; i += 8)
      for (int j = 0; j < 8; j++) sum[j] += a[i + j];
    sink = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
  } else
    for (i = from; i < to; i++) a[i] = b[i] + 0.5 * c[i];
}

static void *work(void *index) {
  for (;;) {
    pthread_barrier_wait(&barrier);
    if (pattern < 0) return 0;
    part((int)(size_t)index);
    pthread_barrier_wait(&barrier);
  }
}

int main(int count, char **words) {
  if (count != 5) return 2;
  size_t all = strtoull(words[1], 0, 10) / sizeof *a;
  threads = atoi(words[2]);
  int passes = atoi(words[3]), blocks = atoi(words[4]), streams[] = {2, 1, 3};
  n = all / blocks;
  a = malloc(all * sizeof *a), b = malloc(all * sizeof *a), c = malloc(all * sizeof *a);
  if (!a || !b || !c) return 1;
  for (size_t i = 0; i < all; i++) a[i] = 1, b[i] = 2, c[i] = 3;
  pthread_t *ids = malloc(threads * sizeof *ids);
  pthread_barrier_init(&barrier, 0, threads + 1);
  for (int i = 0; i < threads; i++) pthread_create(ids + i, 0, work, (void *)(size_t)i);
  for (int each = 0; each < 3; each++) {
    double best = 1e9;
    pattern = each;
    for (int i = 0; i < passes * blocks; i++) {
      start = n * (i % blocks);
      double begin = now();
      pthread_barrier_wait(&barrier);
      pthread_barrier_wait(&barrier);
      double taken = now() - begin;
      if (taken < best) best = taken;
    }
    printf("%.0f\n", streams[each] * (double)(n / threads * threads) * sizeof *a / best);
  }
  pattern = -1;
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < threads; i++) pthread_join(ids[i], 0);
  return 0;
}
