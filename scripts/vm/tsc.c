// SPDX-License-Identifier: GPL-2.0
/*
 * The rate of this machine's time stamp counter in kHz, which is that of an
 * emulated guest, too. A guest on a machine with much to do measures it wrong,
 * several times too slow, and its clock then runs as much too fast.
 */
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* Counter and clock at one moment: the tries that took longest are forgotten. */
static void both(double *ticks, double *us)
{
	unsigned long long best = ~0ull;
	int i;

	for (i = 0; i < 1000; i++) {
		unsigned long long before = __rdtsc();
		double at = now_us();
		unsigned long long after = __rdtsc();

		if (after - before < best) {
			best = after - before;
			*ticks = before + (after - before) / 2.0;
			*us = at;
		}
	}
}

int main(void)
{
	struct timespec wait = { .tv_nsec = 100000000 };
	double ticks, us, ticks_later, us_later;

	both(&ticks, &us);
	nanosleep(&wait, NULL);
	both(&ticks_later, &us_later);
	printf("%.0f\n", (ticks_later - ticks) / (us_later - us) * 1e3);
	return 0;
}
