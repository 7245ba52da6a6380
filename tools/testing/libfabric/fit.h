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
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define VERSION		FI_VERSION(1, 20)
/* Seconds that anything takes at most: guests may be emulated, and their machine loaded. */
#define SOON		60
#define NAME		64
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define BIT_ULL(n)	(1ULL << (n))
#define DATA		0x0123456789abcdefULL

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
	struct fid_cntr *sent, *received;
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
/* Opens an endpoint of the port, by its name, or of the first one. */
void fit_open(struct fit *f, const char *port, enum waiting waiting, uint64_t bind_flags);
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
/* Whether one is there already, after a look. */
bool is_completed(struct fit *f, void *context);

/* Seconds since some time. */
double now(void);
/* Bytes that are different for each seed, and whether they are there. */
void fill(void *at, size_t bytes, unsigned int seed);
bool is_filled(const void *at, size_t bytes, unsigned int seed);

/* Steps: what a target and a source do. */
struct step {
	const char *name;
	void (*target)(struct fit *f, fi_addr_t *sources);
	void (*source)(struct fit *f, fi_addr_t target, unsigned int n);
	unsigned int sources;
};

extern const struct step steps[];

#endif
