/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the driver tells of a machine, for a fuzzer that asks for what there is: hosts,
 * endpoints and virtual functions. It is read once, before all rounds.
 */
#ifndef WEFT_FUZZ_MACHINE_H
#define WEFT_FUZZ_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <linux/weft.h>

#define FM_PORTS	8
#define FM_HOSTS	8
#define FM_VES		8
#define FM_SLOTS	32

/* A virtual endpoint. */
struct fm_ve {
	uint64_t endpoint;
	uint32_t ve;
	uint32_t functions;
	uint64_t host;			/* which has it, or 0 */
	unsigned int port;		/* of this machine, if the host is here */
};

/* A port of a switch. */
struct fm_slot {
	uint64_t hwid;
	uint32_t port;
};

struct fz_machine {
	unsigned int ports;		/* /dev/weft0 and on */
	uint64_t hwids[FM_PORTS];
	bool has_fabric;		/* a port has a manager */
	int master;			/* the port that is master of the fabric, or -1 */
	uint32_t nodes;
	uint64_t hosts[FM_HOSTS];
	unsigned int host_count;
	/* Those of the fabric, and those that ports of this machine are given. */
	struct fm_ve ves[FM_VES], given[FM_VES];
	unsigned int ve_count, given_count;
	struct fm_slot slots[FM_SLOTS];
	unsigned int slot_count;
	/* The port that has virtual functions, and how many. */
	unsigned int vf_port;
	uint32_t vfs;
	/* The assignments, which are put back. */
	char text[WEFT_ASSIGNMENTS_BYTES];
	uint32_t bytes;
};

/* False if there is no master within a minute. */
bool fm_learn(struct fz_machine *m);
/*
 * Puts the assignments back, and withdraws what is announced; false if not all is given again
 * within a minute.
 */
bool fm_restore(const struct fz_machine *m);

/* A text of assignments; its length, or a negative errno. @version is what it replaces, or is. */
long fm_assignments(int fd, unsigned int flags, void *text, uint32_t bytes, uint32_t *version);

#endif
