// SPDX-License-Identifier: GPL-2.0
/*
 * Channels of a fuzzer.
 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "fuzz_calls.h"

#define LONGEST_MS	200

void fz_listen(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->listen.service = 1 + fz_below(&t->rng, 4);
	a->listen.backlog = 1 + fz_below(&t->rng, 64);
}

void fz_channel(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	struct fz_rng *r = &t->rng;

	(void)f;
	a->connect.link = fz_once_in(r, 2) ? 0 : WEFT_ANY_LINK;
	a->connect.service = 1 + fz_below(r, 4);
	a->connect.cells = fz_entries(r);
	a->connect.bulk = WT_PAGE << fz_below(r, 4);
	a->connect.timeout_ms = 1 + fz_below(r, 20);
}

void fz_accept(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->accept.listen_fd = fz_fd(fz_any_file(t));
}

/* Both ends of a channel are asked what it is, and rung. */
static void look(struct fz_thread *t, struct fz_file *const ends[2])
{
	for (int i = 0; i < 2; i++) {
		union fz_arg a = { 0 };

		fz_do(t, ends[i], WEFT_CHAN_INFO, &a);
		memset(&a, 0, sizeof(a));
		fz_do(t, ends[i], WEFT_CHAN_KICK, &a);
	}
}

/* A child connects, for that waits until it is accepted here. */
void fz_converse(struct fz_thread *t)
{
	struct fz_rng *r = &t->rng;
	const unsigned int port = fz_below(r, 2);
	const uint32_t first = fz_below(r, FZ_FILES);
	struct fz_file *listener = &t->shared->files[first];
	struct fz_file *near = &t->shared->files[(first + 1) % FZ_FILES];
	struct fz_file *far = &t->shared->files[(first + 2) % FZ_FILES];
	union fz_arg listen = { 0 }, connect = { 0 }, accept = { 0 };
	struct pollfd p = { .events = POLLIN };
	bool is_coming;
	pid_t child;

	fz_listen(t, listener, &listen);
	fz_channel(t, near, &connect);
	connect.connect.link = 0;
	connect.connect.service = listen.listen.service;
	connect.connect.timeout_ms = LONGEST_MS;
	fz_open(listener, port, O_RDWR | O_NONBLOCK);
	fz_open(far, port, O_RDWR | O_NONBLOCK);
	fz_open(near, !port, O_RDWR);
	if (fz_do(t, listener, WEFT_CHAN_LISTEN, &listen))
		return;
	fz_calm(true);
	child = fork();
	if (!child) {
		/* Other threads may have held these. */
		fz_unlock(t->shared);
		_exit(fz_do(t, near, WEFT_CHAN_CONNECT, &connect) < 0);
	}
	p.fd = fz_fd(listener);
	is_coming = child > 0 && poll(&p, 1, LONGEST_MS) > 0;
	fz_calm(false);
	/* Other threads may accept it, and make this wait for the next. */
	if (is_coming) {
		accept.accept.listen_fd = p.fd;
		fz_do(t, far, WEFT_CHAN_ACCEPT, &accept);
	}
	if (child > 0)
		while (waitpid(child, NULL, 0) < 0)
			;
	look(t, (struct fz_file *[]){ near, far });
}
