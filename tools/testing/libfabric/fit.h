/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An endpoint of libfabric's provider weft, with what tests need around it. Only libfabric's own
 * interface is used.
 */
#ifndef WEFT_FIT_H
#define WEFT_FIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define VERSION		FI_VERSION(1, 20)
/* Seconds that anything takes at most: guests may be emulated, and their machine loaded. */
#define SOON		60
#define NAME		64
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define BIT_ULL(n)	(1ULL << (n))
#define DATA		0x0123456789abcdefULL
/* The longest message, and the sizes that are tried. */
#define MOST		1048576
#define SIZES		12

#define CHECK(cond) do {						\
	if (!(cond)) {							\
		fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);	\
		exit(1);						\
	}								\
} while (0)
/* Of calls that return 0 or a negative error. */
#define OK(call) do {							\
	long rc_ = (call);						\
	if (rc_) {							\
		fprintf(stderr, "%s:%d: %s: %ld %s\n", __FILE__, __LINE__, #call, rc_,	\
			fi_strerror(rc_ < 0 ? -rc_ : rc_));		\
		exit(1);						\
	}								\
} while (0)
/* Of operations, which may have to be begun again. */
#define POST(f, call) do {						\
	long again_;							\
	while ((again_ = (call)) == -FI_EAGAIN)				\
		progress(f);						\
	OK(again_);							\
} while (0)

/* How completions are waited for. */
enum waiting { SPIN, SREAD, FD };

/* What was completed. */
struct done {
	struct fi_cq_tagged_entry entry;
	fi_addr_t source;
	int err, prov_errno;
	size_t olen;
};

struct fit {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	/* Of messages; of regions of others; of regions that others access. */
	struct fid_cntr *sent, *received, *accessed, *reached;
	struct fid_eq *eq;
	struct fid_ep *ep;
	enum waiting waiting;
	char name[NAME];
	/* Completions that were read before they were asked for. */
	struct done early[1024];
	unsigned int count;
};

/* Hints for an endpoint of the provider. */
struct fi_info *hints_for(uint64_t caps);
/* Opens an endpoint of the port, by its name, or of the first one, with @more capabilities. */
void fit_open(struct fit *f, const char *port, enum waiting waiting, uint64_t more);
void fit_close(struct fit *f);
fi_addr_t insert(struct fit *f, const char *name);

/* Reads what has been completed. */
void progress(struct fit *f);
/* The completion of this context, which is waited for. */
struct done completed(struct fit *f, void *context);
/* The same, for as long as it takes. */
struct done completed_ever(struct fit *f, void *context);
/* The same, of an operation that has to succeed. */
struct done succeeded(struct fit *f, void *context);
/* The error of one that has to fail. */
int failed(struct fit *f, void *context);
/* Whether one is there already, after a look. */
bool is_completed(struct fit *f, void *context);

/* Seconds since some time. */
double now(void);
/* Bytes that are different for each seed, and whether they are there. */
void fill(void *at, size_t bytes, unsigned int seed);
bool is_filled(const void *at, size_t bytes, unsigned int seed);

/* Memory with a byte behind it, all 0xee. */
uint8_t *memory(size_t bytes);
/* A message that says that an end has come so far, and waiting for one. */
void go(struct fit *f, fi_addr_t to);
void wait_go(struct fit *f, fi_addr_t from);
/* Registers memory that others may reach, by a key; and takes it back. */
#define KEY	0x11
#define ALL	(FI_REMOTE_READ | FI_REMOTE_WRITE)
struct fid_mr *region(struct fit *f, void *at, size_t bytes, uint64_t access, uint64_t key);
void closed(struct fid_mr *mr);

/* Steps: what a target and a source do, with more capabilities than others. */
struct step {
	const char *name;
	void (*target)(struct fit *f, fi_addr_t *sources);
	void (*source)(struct fit *f, fi_addr_t target, unsigned int n);
	unsigned int sources;
	uint64_t more;
};

extern const size_t sizes[SIZES];
/* The one with a name, of those of messages, of regions and of what waits. */
const struct step *step_of(const char *name);
extern const struct step region_steps[];
extern const struct step trigger_steps[];

void atomic(struct fit *f, fi_addr_t *sources);
void to_atomic(struct fit *f, fi_addr_t target, unsigned int n);
void contend(struct fit *f, fi_addr_t *sources);
void to_contend(struct fit *f, fi_addr_t target, unsigned int n);

#endif
