// Moves the wall clock of the process that it is preloaded into (LD_PRELOAD) by the nanoseconds in the file that RELOCK_CLOCK names; after so
// many more readings of it, by a jump on top.
// CLOCK_MONOTONIC is left alone. It asks the kernel itself: looking up the functions that it replaces would allocate memory, and the
// allocator may ask for the time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static struct {
	int64_t offset;
	int64_t readings; // until the jump; 0 when there is none to come
	int64_t jump;
} *shared;

__attribute__((constructor)) static void start(void) {
	const char *path = getenv("RELOCK_CLOCK");
	int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (file < 0)
		return;
	void *page = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (page != MAP_FAILED)
		shared = page;
}

static int64_t offset(void) {
	if (__atomic_load_n(&shared->readings, __ATOMIC_SEQ_CST) > 0 && __atomic_sub_fetch(&shared->readings, 1, __ATOMIC_SEQ_CST) == 0)
		__atomic_add_fetch(&shared->offset, shared->jump, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&shared->offset, __ATOMIC_SEQ_CST);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
	int failed = syscall(SYS_clock_gettime, clock, now);
	if (failed || !shared || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return failed;
	int64_t ns = now->tv_sec * SECOND + now->tv_nsec + offset();
	now->tv_sec = ns / SECOND;
	now->tv_nsec = ns % SECOND;
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
	struct timespec t;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &t);
	now->tv_sec = t.tv_sec;
	now->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}
