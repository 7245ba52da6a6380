// SPDX-License-Identifier: GPL-2.0
/*
 * A write, a read of known and one of unknown size between ports 0 and 1, each once and
 * long enough that memory is named for it: what `weftctl trace` is to draw. Not a test:
 * says nothing if all is well.
 */
#include <stdio.h>
#include <string.h>

#include "ends.h"
#include "weft_test.h"

/* Too long for the eager ring, and short enough for one part. */
#define LONG	40000

static bool done(struct we_end *a, struct we_end *b, uint32_t bytes, const char *what)
{
	struct weft_cqe cqe;

	if (we_await(a, b, &cqe) && cqe.status == WEFT_WC_SUCCESS && cqe.byte_len == bytes &&
	    !memcmp(a->mem, b->mem, bytes))
		return true;
	fprintf(stderr, "%s: status %u, %u bytes\n", what, cqe.status, cqe.byte_len);
	return false;
}

int main(void)
{
	struct we_end a, b;
	bool good;

	if (!wt_wait_ready(10000) || !we_begin(&a, 0, LONG) || !we_begin(&b, 1, LONG) ||
	    !we_join(&a, &b)) {
		fprintf(stderr, "no queue pair between ports 0 and 1\n");
		return 1;
	}
	memset(a.mem, 1, LONG);
	we_post(&a, 1, WEFT_OP_WRITE, 0, LONG, WE_BASE, b.stag);
	good = done(&a, &b, LONG, "write");
	memset(b.mem, 2, LONG);
	we_post(&a, 2, WEFT_OP_READ, 0, LONG, WE_BASE, b.stag);
	good = good && done(&a, &b, LONG, "read");
	memset(b.mem, 3, LONG);
	we_post(&a, 3, WEFT_OP_READ_ALL, 0, LONG, WE_BASE, b.stag);
	good = good && done(&a, &b, LONG, "read of unknown size");
	we_end(&a);
	we_end(&b);
	return !good;
}
