/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A file whose pages a thread of this process provides, by FUSE: memory that is mapped from
 * it comes at once, late, or not at all, as the test says.
 *
 * A task that waits for a page is one of a process of its own, which ff_fork() makes: a
 * process that waited for its own thread could not be killed.
 */
#ifndef WEFT_FUSE_FILE_H
#define WEFT_FUSE_FILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FF_PAGES	8
#define FF_PAGE		4096UL

/* What becomes of a page that is read. */
enum ff_answer {
	FF_DATA,	/* it comes: bytes of ff_byte() */
	FF_ERROR,	/* EIO */
	FF_LATE,	/* it comes after ff_release() */
};

struct ff_file {
	char path[40];
	int dev;			/* /dev/fuse */
	int stop;			/* an eventfd: the thread is to end */
	pthread_t thread;
	pthread_mutex_t lock;		/* of what follows */
	enum ff_answer answers[FF_PAGES];
	uint64_t held[FF_PAGES];	/* the request that waits for the page, or 0 */
};

/* Why this machine has no such file, or NULL. */
const char *ff_lacks(void);

bool ff_begin(struct ff_file *f);
void ff_end(struct ff_file *f);

/* A descriptor of the file; -1 if there is none to be had. */
int ff_open(struct ff_file *f);
/* All of it, private to the process; NULL if it cannot be mapped. Nothing is read for that. */
uint8_t *ff_map(struct ff_file *f);
/* The byte at @at, which is the same in all files. */
uint8_t ff_byte(uint64_t at);

/* What becomes of a page from now on, as long as it is not in memory. */
void ff_set(struct ff_file *f, unsigned int page, enum ff_answer answer);
/* True when the kernel waits for the page; false after @timeout_ms. */
bool ff_wait(struct ff_file *f, unsigned int page, int timeout_ms);
/* The page comes, for the task that waits and those to come. */
void ff_release(struct ff_file *f, unsigned int page);

/* As fork(); the child does not keep the file alive, and ends with its parent. */
pid_t ff_fork(struct ff_file *f);

#endif
