/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Operations of the driver whose allocations failnth fails: what each needs, does, and leaves.
 */
#ifndef WEFT_NTH_H
#define WEFT_NTH_H

#include <stdbool.h>

#define NTH_READY_MS	30000

/*
 * @run is what is failed, in the calling thread or in those with @threads in their
 * name; it returns 0 or a negative errno. @prepare and @undo run without failures.
 */
struct operation {
	const char *name;
	const char *threads;
	bool (*prepare)(void);
	long (*run)(void);
	bool (*undo)(void);
	/* The least it asks for: with less, the wrong things were counted. */
	unsigned int least;
	/* What it may end with, the end of the list is 0: nothing at all. */
	int errors[8];
};

/* Each list ends with an operation without a name. */

/* Those that need no link: the module is loaded, and a port is bound. nth_module.c. */
extern const struct operation nth_unloaded[];
/* Files, channels and sockets: nth_calls.c. nth_unpair() closes the channel that they share. */
extern const struct operation nth_calls[];
void nth_unpair(void);
/* Matching interfaces, interfaces of the network, and clients in the kernel: nth_clients.c. */
extern const struct operation nth_clients[];

/* What most calls may end with. */
#define NTH_USUAL { ENOMEM, EFAULT }

/* Finds the two ports. */
bool nth_begin(const char *path);
/* A module, by its file; 0 or a negative errno. */
long nth_load_file(const char *path, const char *parameters);
/* weft.ko: nothing of it is left when it goes. */
extern const char *nth_module;
bool nth_reload(void);
/* It is there, both ports are bound, and their link is ready. */
bool nth_all_ready(void);
/* One of the two ports; true if it is not bound. */
bool nth_unbind(unsigned int port);
/* The name of a port's device. */
extern char nth_port[2][32];

static inline bool nth_nothing(void)
{
	return true;
}

#endif
