// SPDX-License-Identifier: GPL-2.0
/*
 * nap MS: sleeps for so many milliseconds, for shells that wait for something.
 *
 * Linked statically: an emulated processor takes 40 ms to start sleep(1), and
 * 9 ms to start this.
 */
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
	long ms = argc > 1 ? atol(argv[1]) : 0;
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	return nanosleep(&time, NULL) != 0;
}
